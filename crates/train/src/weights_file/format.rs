//! The safetensors format: 8 bytes for the length of a JSON header, the header, the values.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use burn::tensor::{BoolStore, DType, TensorData};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::WeightsError;
use super::replace::replace;

/// Bytes before the header, and what the values are aligned to.
const LENGTH: usize = 8;

/// Bytes that a header may have, as in every other reader of the format.
const HEADER_LIMIT: u64 = 100_000_000;

/// A file that is open, and whose header fits its length.
pub(super) struct WeightsFile {
    path: PathBuf,
    header: Metadata,
    /// Stands at the first value.
    file: File,
}

impl WeightsFile {
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let read = |source| WeightsError::read(path, source);
        // Opening a pipe would wait for someone to write into it.
        if !fs::metadata(path).map_err(read)?.is_file() {
            return Err(read(io::Error::other("not a regular file")));
        }
        let mut file = File::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        let (header, values) = read_header(path, &mut file, length)?;
        let end = values.saturating_add(header.data_len() as u64);
        at_least(path, end, length)?;
        if length > end {
            let reason = format!("{} bytes follow its last tensor", length - end);
            return Err(WeightsError::not_safetensors(path, reason));
        }
        let path = path.to_owned();
        Ok(Self { path, header, file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        self.header
            .metadata()
            .iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    pub(super) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }

    /// The names of all tensors.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = self.header.offset_keys();
        names.sort_unstable();
        names
    }

    /// Reads the values. Their types have been compared with a model's.
    pub(super) fn read(mut self) -> Result<BTreeMap<String, TensorData>, WeightsError> {
        let mut tensors = BTreeMap::new();
        for name in self.header.offset_keys() {
            let Some(info) = self.header.info(&name) else {
                continue;
            };
            let (start, end) = info.data_offsets;
            let mut bytes = vec![0; end - start];
            let read = self.file.read_exact(&mut bytes);
            read.map_err(|source| WeightsError::read(&self.path, source))?;
            let data = self.data(&name, info, bytes)?;
            tensors.insert(name, data);
        }
        Ok(tensors)
    }

    fn data(
        &self,
        name: &str,
        info: &TensorInfo,
        bytes: Vec<u8>,
    ) -> Result<TensorData, WeightsError> {
        let Some(dtype) = burn_dtype(info.dtype) else {
            let reason = format!("tensor `{name}` is of type {}", info.dtype);
            return Err(WeightsError::not_safetensors(&self.path, reason));
        };
        // Burn takes the bytes of bools for bools, whatever they are.
        let neither = bytes.iter().find(|&&byte| byte > 1);
        if let (DType::Bool(_), Some(&got)) = (dtype, neither) {
            let (path, tensor) = (self.path.clone(), name.to_owned());
            return Err(WeightsError::NotBool { path, tensor, got });
        }
        let shape = info.shape.clone();
        Ok(TensorData::from_bytes_vec(bytes, shape, dtype))
    }
}

/// Reads the header of a file of `length` bytes; returns where it ends as well.
fn read_header(path: &Path, file: &mut File, length: u64) -> Result<(Metadata, u64), WeightsError> {
    at_least(path, LENGTH as u64, length)?;
    let mut size = [0; LENGTH];
    let read = |source| WeightsError::read(path, source);
    file.read_exact(&mut size).map_err(read)?;
    let size = checked_size(path, u64::from_le_bytes(size))?;
    // Before memory is taken for what isn't there.
    let end = (LENGTH + size) as u64;
    at_least(path, end, length)?;
    let mut text = vec![0; size];
    file.read_exact(&mut text).map_err(read)?;
    let header = serde_json::from_slice(&text);
    let header = header.map_err(|error| WeightsError::not_safetensors(path, error))?;
    Ok((header, end))
}

fn at_least(path: &Path, expected: u64, got: u64) -> Result<(), WeightsError> {
    if got >= expected {
        return Ok(());
    }
    let path = path.to_owned();
    Err(WeightsError::Truncated {
        path,
        expected,
        got,
    })
}

fn checked_size(path: &Path, size: u64) -> Result<usize, WeightsError> {
    match usize::try_from(size) {
        Ok(fits) if size <= HEADER_LIMIT => Ok(fits),
        _ => Err(WeightsError::HeaderTooLarge {
            path: path.to_owned(),
            limit: HEADER_LIMIT,
            got: size,
        }),
    }
}

/// Writes a file of tensors of [`plain`](crate::tensors::plain) types.
pub(super) fn write(
    path: &Path,
    tensors: &BTreeMap<String, TensorData>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WeightsError> {
    let write = |source| WeightsError::write(path, source);
    let tensors = ordered(path, tensors)?;
    let header = header(&tensors, metadata).map_err(|error| write(error.into()))?;
    checked_size(path, header.len() as u64)?;
    replace(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        tensors
            .iter()
            .try_for_each(|(_, _, data)| file.write_all(data.as_bytes()))
    })
    .map_err(write)
}

/// Type, name and values of each tensor, the widest types first: every value is then aligned, as
/// readers that map the file like it.
fn ordered<'a>(
    path: &Path,
    tensors: &'a BTreeMap<String, TensorData>,
) -> Result<Vec<(Dtype, &'a str, &'a TensorData)>, WeightsError> {
    let mut ordered = Vec::new();
    for (name, data) in tensors {
        let Some(dtype) = file_dtype(data.dtype) else {
            let (path, tensor) = (path.to_owned(), name.clone());
            return Err(WeightsError::Quantized { path, tensor });
        };
        ordered.push((dtype, name.as_str(), data));
    }
    ordered.sort_by_key(|&(dtype, name, _)| (Reverse(dtype), name));
    Ok(ordered)
}

/// Put together by hand: the crate's own has its metadata in another order at each call.
fn header(
    tensors: &[(Dtype, &str, &TensorData)],
    metadata: &BTreeMap<String, String>,
) -> serde_json::Result<String> {
    let mut header = format!("{{\"__metadata__\":{}", serde_json::to_string(metadata)?);
    let mut start = 0;
    for (dtype, name, data) in tensors {
        let end = start + data.as_bytes().len();
        let info = TensorInfo {
            dtype: *dtype,
            shape: data.shape.to_vec(),
            data_offsets: (start, end),
        };
        header.push_str(&format!(
            ",{}:{}",
            serde_json::to_string(name)?,
            serde_json::to_string(&info)?
        ));
        start = end;
    }
    header.push('}');
    let padding = header.len().next_multiple_of(LENGTH) - header.len();
    Ok(header + &" ".repeat(padding))
}

/// Pairs of types, one of Burn's for each of the file's.
const DTYPES: [(DType, Dtype); 13] = [
    (DType::F64, Dtype::F64),
    (DType::F32, Dtype::F32),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I64, Dtype::I64),
    (DType::I32, Dtype::I32),
    (DType::I16, Dtype::I16),
    (DType::I8, Dtype::I8),
    (DType::U64, Dtype::U64),
    (DType::U32, Dtype::U32),
    (DType::U16, Dtype::U16),
    (DType::U8, Dtype::U8),
    (DType::Bool(BoolStore::Native), Dtype::BOOL),
];

pub(super) fn burn_dtype(dtype: Dtype) -> Option<DType> {
    DTYPES
        .iter()
        .find(|pair| pair.1 == dtype)
        .map(|pair| pair.0)
}

fn file_dtype(dtype: DType) -> Option<Dtype> {
    DTYPES
        .iter()
        .find(|pair| pair.0 == dtype)
        .map(|pair| pair.1)
}
