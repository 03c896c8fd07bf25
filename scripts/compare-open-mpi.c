/* All-reduces of f32 between all ranks, in place, one after the other. Rank 0 prints a line for each
 * size: bytes, and the median time of one call in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_us(float *values, int count, int calls) {
    double *times = malloc(calls * sizeof *times);
    if (times == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int call = 0; call < calls; call++) {
        double start = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        times[call] = MPI_Wtime() - start;
    }
    qsort(times, calls, sizeof *times, ascending);
    double median = times[calls / 2] * 1e6;
    free(times);
    return median;
}

/* Pairs of arguments: bytes, and number of calls to time. */
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int argument = 1; argument + 1 < argc; argument += 2) {
        int bytes = atoi(argv[argument]), calls = atoi(argv[argument + 1]);
        float *values = calloc(bytes, 1);
        if (values == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 0; i < bytes / 4; i++) values[i] = (float)rank;
        median_us(values, bytes / 4, calls / 10 + 2); /* connections and buffers grow */
        double median = median_us(values, bytes / 4, calls);
        if (rank == 0) printf("%d %.2f\n", bytes, median);
        free(values);
    }
    MPI_Finalize();
    return 0;
}
