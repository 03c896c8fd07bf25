//! Forming a group: who comes, who is missing, who is refused; an error on every rank that is there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use burn_virtual_collective::tcp::{
    Host, Job, JoinError, Limits, OnStall, Settings, Store, Token, host_port, join,
};

use super::help::{
    Joined, LIMIT, assert_contains, assert_works, first_result, free_address, join_all,
    listener_at, refusal, result, settings, start, store, within_limit,
};

#[test]
fn group_forms_for_every_world_at_a_launcher_s_store() {
    for world in 1..=5 {
        let store = store(world);
        assert_works(join_all(
            (0..world).map(|rank| settings(&store, rank, world)),
        ));
    }
}

#[test]
fn group_forms_for_every_world_when_rank_0_runs_the_store() {
    for world in 1..=5 {
        let at = free_address();
        // Rank 0 comes last: the others try until it is there.
        let ranks = (0..world).rev().map(|rank| Settings {
            timeout: Duration::from_secs(8),
            ..Settings::new(&at, rank, world)
        });
        assert_works(join_all(ranks));
    }
}

#[test]
fn world_of_one_needs_neither_store_nor_socket() {
    let settings = Settings::new("no such host", 0, 1);
    assert_works(vec![join(&settings)]);
}

#[test]
fn both_jobs_form_when_two_with_default_settings_share_a_host_case_40() {
    let stores = [store(3), store(3)];
    let ranks = (0..6).map(|index| settings(&stores[index % 2], index / 2, 3));
    let mut joined: [Vec<_>; 2] = Default::default();
    for (index, rank) in join_all(ranks).into_iter().enumerate() {
        joined[index % 2].push(rank);
    }
    joined.into_iter().for_each(assert_works);
}

#[test]
fn error_holds_address_and_port_when_rank_0_finds_the_port_busy_case_40() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = busy.local_addr().unwrap().to_string();
    let error = join(&Settings::new(&at, 0, 2)).unwrap_err();
    assert!(matches!(error, JoinError::Bind { .. }), "{error}");
    assert_contains(&error.to_string(), &[&at]);
}

#[test]
fn every_rank_says_who_is_missing_at_the_deadline_case_40() {
    let launched = store(4);
    let with_launcher = (0..3).map(|rank| settings(&launched, rank, 4));
    for joined in join_all(with_launcher) {
        assert_contains(&refusal(joined), &["missing: 3", "group of 4"]);
    }
    let at = free_address();
    let with_rank_0 = (0..3).map(|rank| Settings {
        timeout: Duration::from_secs(2),
        ..Settings::new(&at, rank, 4)
    });
    for joined in join_all(with_rank_0) {
        assert_contains(&refusal(joined), &["missing: 3"]);
    }
}

/// Joins in vain until two lines about stalls hold all of `parts`: others may take a while to come, and
/// are missing before.
#[track_caller]
fn assert_says_twice(settings: Settings, parts: &[&str]) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        join(&Settings {
            timeout: LIMIT,
            stall: Duration::from_millis(100),
            on_stall: OnStall::call(move |stall| drop(sender.send(stall.to_string()))),
            ..settings
        })
    });
    let mut lines = Vec::new();
    let holds_all = |line: &&String| parts.iter().all(|part| line.contains(part));
    while lines.iter().filter(holds_all).count() < 2 {
        match receiver.recv_timeout(LIMIT) {
            Ok(line) => lines.push(line),
            Err(_) => panic!("{lines:?} lack {parts:?}"),
        }
    }
}

/// A rank that waits, and says nothing of it.
fn start_silent(settings: Settings) -> mpsc::Receiver<Joined> {
    start(Settings {
        timeout: LIMIT,
        stall: Duration::MAX,
        on_stall: OnStall::call(|stall| panic!("{stall}")),
        ..settings
    })
}

#[test]
fn rank_says_again_and_again_who_is_missing_before_the_deadline() {
    let store = store(3);
    let other = start_silent(settings(&store, 2, 3));
    let line = " to form a group of 3; here: 0, 2; missing: 1";
    assert_says_twice(settings(&store, 0, 3), &["rank 0: waiting for ", line]);
    drop(store);
    assert_contains(
        &refusal(result(&other)),
        &["missing: 1; the store was stopped"],
    );
}

#[test]
fn rank_says_before_the_deadline_that_there_is_no_store() {
    let at = free_address();
    let line = format!(" to form a group of 2; no store at {at}: ");
    let parts = ["rank 1: waiting for ", &line, "refused"];
    assert_says_twice(Settings::new(&at, 1, 2), &parts);
}

#[test]
fn rank_says_before_the_deadline_which_rank_it_cannot_connect_to() {
    let store = store(2);
    let hidden = start_silent(Settings {
        advertise: Some("127.0.0.9".to_owned()),
        ..settings(&store, 0, 2)
    });
    assert_says_twice(settings(&store, 1, 2), &["here: 1; missing: 0"]);
    drop(store);
    refusal(result(&hidden));
}

#[test]
fn store_is_ready_for_another_try_when_one_failed() {
    let store = store(2);
    let lonely = Settings {
        timeout: Duration::from_millis(100),
        ..settings(&store, 0, 2)
    };
    assert_contains(&refusal(join(&lonely)), &["missing: 1"]);
    assert_works(join_all((0..2).map(|rank| settings(&store, rank, 2))));
}

#[test]
fn second_of_a_rank_is_refused_by_name_and_the_group_unharmed_case_40() {
    let store = store(3);
    let mut ranks = Vec::from([0, 1, 1].map(|rank| start(settings(&store, rank, 3))));
    let refused = refusal(first_result(&mut ranks));
    assert_contains(&refused, &["rank 1 is already here, from 127.0.0.1:"]);
    ranks.push(start(settings(&store, 2, 3)));
    assert_works(ranks.iter().map(result).collect());
}

#[test]
fn rank_refused_when_it_is_beyond_the_world_case_40() {
    let store = store(4);
    let error = refusal(join(&settings(&store, 4, 4)));
    assert_contains(&error, &["rank 4 is out of range", "below 4"]);
    let error = refusal(join(&settings(&store, 0, 0)));
    assert_contains(&error, &["got 0"]);
}

/// A strange rank 1 is refused at once and reads why; the rank that waits for another one reads it if
/// none comes, and has its group if one does.
fn assert_refused(strange: impl Fn(Settings) -> Settings, refused: &[&str], noted: &[&str]) {
    let met = store(2);
    let first = start(settings(&met, 0, 2));
    let error = refusal(join(&strange(settings(&met, 1, 2))));
    assert_contains(&error, refused);
    let second = start(settings(&met, 1, 2));
    assert_works(vec![result(&first), result(&second)]);

    let lonely = store(2);
    let waiting = start(Settings {
        timeout: Duration::from_millis(500),
        ..settings(&lonely, 0, 2)
    });
    refusal(join(&strange(settings(&lonely, 1, 2))));
    let error = refusal(result(&waiting));
    assert_contains(&error, &["missing: 1; refused meanwhile: "]);
    assert_contains(&error, noted);
}

#[test]
fn rank_of_another_job_is_refused_by_name_and_the_group_unharmed_case_40() {
    let strange = |settings: Settings| {
        let id = "other".to_owned();
        let job = Job { id, ..Job::new(2) };
        Settings { job, ..settings }
    };
    let text = r#"job id: expected "burn-virtual", got "other""#;
    let refused = ["rank 1: refused by store at 127.0.0.1:", text];
    assert_refused(strange, &refused, &["rank 1 from 127.0.0.1:", text]);
}

#[test]
fn rank_of_another_world_or_epoch_is_refused_by_name_and_the_group_unharmed_case_40() {
    let of_world_3 = |settings: Settings| Settings {
        job: Job::new(3),
        ..settings
    };
    let text = ["world size: expected 2, got 3"];
    assert_refused(of_world_3, &text, &text);
    let of_epoch_7 = |settings: Settings| {
        let job = Job {
            epoch: 7,
            ..Job::new(2)
        };
        Settings { job, ..settings }
    };
    let text = ["epoch: expected 0, got 7"];
    assert_refused(of_epoch_7, &text, &text);
}

#[test]
fn rank_of_another_bit_probe_is_refused_by_name_whoever_comes_first() {
    let of_probe = |settings: Settings| Settings {
        probe: "93ac".to_owned(),
        ..settings
    };
    let text = [r#"bit probe: expected "", got "93ac""#];
    assert_refused(of_probe, &text, &text);
    // Before rank 0: it is refused as soon as that is there.
    let store = store(2);
    let early = start(of_probe(settings(&store, 1, 2)));
    let late = Settings {
        timeout: Duration::from_millis(500),
        ..settings(&store, 0, 2)
    };
    thread::sleep(Duration::from_millis(50));
    assert_contains(&refusal(join(&late)), &["missing: 1", "93ac"]);
    assert_contains(&refusal(result(&early)), &text);
}

#[test]
fn rank_without_the_token_is_refused_and_the_group_unharmed() {
    let without = |settings: Settings| Settings {
        token: Token::new("another token than theirs").unwrap(),
        ..settings
    };
    let refused = ["rank 1: store at 127.0.0.1:", "not the same token"];
    assert_refused(without, &refused, &["127.0.0.1:", "token: no proof of it"]);
}

#[test]
fn refusal_of_a_rank_is_told_however_many_strangers_came_before() {
    let store = store(2);
    let waiting = start(Settings {
        timeout: Duration::from_secs(2),
        ..settings(&store, 0, 2)
    });
    for _ in 0..20 {
        let mut stranger = TcpStream::connect(store.addr()).unwrap();
        stranger.write_all(b"BVTH\x09\0\0\0").unwrap();
        stranger.write_all(&[7; 32]).unwrap();
        stranger.read_exact(&mut [0; 40]).unwrap(); // so the store has seen it
    }
    refusal(join(&settings(&store, 1, 3)));
    let error = refusal(result(&waiting));
    let rank = "rank 1 from 127.0.0.1:";
    let strangers = "; 20 connections that did not prove the token, the last from 127.0.0.1:";
    assert_contains(&error, &[rank, "world size: expected 2, got 3", strangers]);
    assert_contains(&error, &["version: expected 1, got 9"]);
}

#[test]
fn address_that_others_reach_needs_a_token_that_was_given() {
    let any = "0.0.0.0:0";
    let error = Store::bind(any, &Job::new(2), &Token::default(), &Limits::default()).unwrap_err();
    assert!(matches!(error, JoinError::TokenNeeded { .. }), "{error}");
    let store = store(2);
    let open = Settings {
        bind: Some("0.0.0.0".to_owned()),
        ..settings(&store, 0, 2)
    };
    let error = refusal(join(&open));
    assert_contains(&error, &["0.0.0.0:0", "token"]);
}

#[test]
fn group_forms_when_ranks_listen_at_all_addresses_with_a_token() {
    let (job, token) = (Job::new(3), Token::random().unwrap());
    let store = Store::bind("127.0.0.1:0", &job, &token, &Limits::default()).unwrap();
    assert_works(join_all((0..3).map(|rank| Settings {
        token: token.clone(),
        bind: Some("0.0.0.0".to_owned()),
        advertise: (rank == 1).then(|| "localhost".to_owned()),
        ..settings(&store, rank, 3)
    })));
}

#[test]
fn group_forms_over_ipv6_and_by_name() {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // this host has no IPv6
    }
    for (host, bind) in [
        ("::1", Some("::1")),
        ("localhost", Some("localhost")),
        ("::1", Some("127.0.0.1")),
        ("::1", None),
        ("[::1]", None),
        ("::ffff:127.0.0.1", None),
    ] {
        let at = host_port(host, 0);
        let store = Store::bind(&at, &Job::new(3), &Token::default(), &Limits::default()).unwrap();
        let port = store.addr().port();
        assert_works(join_all((0..3).map(|rank| Settings {
            store: host_port(host, port),
            bind: bind.map(str::to_owned),
            ..settings(&store, rank, 3)
        })));
    }
}

/// Ranks that a launcher told no more than where to meet, and their secret if they have one.
fn assert_forms_at(master: &str, token: &Token) {
    let port = free_address().rsplit_once(':').unwrap().1.parse().unwrap();
    assert_works(join_all((0..3).map(|rank| Settings {
        token: token.clone(),
        timeout: Duration::from_secs(8),
        ..Settings::new(host_port(master, port), rank, 3)
    })));
}

#[test]
fn group_forms_wherever_the_name_of_the_place_to_meet_leads() {
    for master in ["127.0.0.1", "127.3.0.1", "localhost"] {
        assert_forms_at(master, &Token::default());
    }
    let token = Token::random().unwrap();
    if let Some(name) = host_name() {
        assert_forms_at(&name, &token);
    }
    if TcpListener::bind("[::1]:0").is_ok() {
        assert_forms_at("::1", &Token::default());
        assert_forms_at("[::1]", &Token::default());
    }
}

/// The name of this host, if it leads to an address that can be listened at.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/etc/hostname").ok()?;
    let name = name.trim();
    TcpListener::bind((name, 0)).ok().map(|_| name.to_owned())
}

#[test]
fn place_to_meet_that_others_reach_needs_a_token_that_was_given() {
    // Documentation addresses (RFC 5737, 3849): nobody is there.
    for (at, ip) in [
        ("192.0.2.1:9", "192.0.2.1"),
        ("[2001:db8::1]:9", "2001:db8::1"),
    ] {
        for rank in 0..2 {
            let error = join(&Settings::new(at, rank, 2)).unwrap_err();
            assert!(
                matches!(error, JoinError::StoreNeedsToken { .. }),
                "{error}"
            );
            assert_contains(&error.to_string(), &[at, ip, "BURN_VIRTUAL_TOKEN"]);
        }
    }
}

#[test]
fn rank_that_listens_at_version_4_only_is_told_when_the_store_is_at_version_6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // this host has no IPv6
    }
    let (job, token) = (Job::new(2), Token::random().unwrap());
    let store = Store::bind("[::1]:0", &job, &token, &Limits::default()).unwrap();
    let open = Settings {
        token,
        bind: Some("0.0.0.0".to_owned()),
        ..settings(&store, 0, 2)
    };
    let error = refusal(join(&open));
    assert_contains(&error, &["listens at 0.0.0.0:", "from ::1"]);
}

#[test]
fn port_0_of_rank_0_is_refused_since_nobody_could_find_it() {
    for rank in 0..2 {
        let error = join(&Settings::new("127.0.0.1:0", rank, 2)).unwrap_err();
        assert_contains(&error.to_string(), &["127.0.0.1:0", "expected a port"]);
    }
}

#[test]
fn error_names_the_address_when_nobody_listens_there() {
    let at = free_address();
    let lonely = Settings {
        timeout: Duration::from_millis(300),
        ..Settings::new(&at, 1, 2)
    };
    let error = within_limit(move || refusal(join(&lonely)));
    assert_contains(&error, &["rank 1: no store of rank 0", &at, "refused"]);
}

#[test]
fn error_names_the_host_when_there_is_none() {
    let lost = Settings::new("host.invalid:29500", 1, 2);
    let error = within_limit(move || {
        refusal(join(&Settings {
            timeout: Duration::from_secs(2),
            ..lost
        }))
    });
    assert_contains(&error, &["host.invalid:29500"]);
}

/// Joins where something else listens, which does `answer` with every connection.
fn join_at(answer: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    thread::spawn(move || listener.incoming().flatten().for_each(answer));
    let settings = Settings {
        timeout: Duration::from_millis(500),
        host: Host::Launcher,
        ..Settings::new(&at, 1, 2)
    };
    let error = within_limit(move || refusal(join(&settings)));
    assert_contains(&error, &["rank 1", &at]);
    error
}

#[test]
fn join_ends_at_its_deadline_when_the_store_accepts_and_never_answers_case_37() {
    let error = join_at(|stream| {
        // Kept open: it ends with the test's process.
        std::mem::forget(stream);
    });
    assert_contains(&error, &["no store", "no answer"]);
}

#[test]
fn join_ends_at_its_deadline_when_the_store_hangs_up_case_37() {
    let error = join_at(drop);
    assert_contains(&error, &["no store"]);
}

#[test]
fn join_ends_at_once_when_something_else_answers() {
    let error = join_at(|mut stream| {
        let _ = stream.read(&mut [0; 40]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        std::mem::forget(stream);
    });
    assert_contains(&error, &["expected store at", "magic"]);
}

#[test]
fn listener_that_cannot_prove_the_token_is_not_believed() {
    let error = join_at(|mut stream| {
        let mut said = [0; 544];
        let _ = stream.read_exact(&mut said[..40]);
        let _ = stream.write_all(b"BVTH\x01\0\0\0");
        let _ = stream.write_all(&[7; 32]);
        let _ = stream.read_exact(&mut said);
        // Admitted, with a proof that is none; the dialer's own does not do, either.
        let proof = said[512..].to_vec();
        said.fill(0);
        said[0] = 1;
        said[512..].copy_from_slice(&proof);
        let _ = stream.write_all(&said);
        std::mem::forget(stream);
    });
    assert_contains(&error, &["store at", "not the same token"]);
}

#[test]
fn join_ends_at_its_deadline_when_the_answer_comes_byte_by_byte_case_37() {
    let error = join_at(|mut stream| {
        thread::spawn(move || {
            for byte in b"BVTH\x01\0\0\0".iter().chain(&[7; 20]) {
                let _ = stream.write_all(&[*byte]);
                thread::sleep(Duration::from_millis(50));
            }
        });
    });
    assert_contains(&error, &["no store"]);
}

#[test]
fn every_rank_errs_when_one_cannot_be_reached() {
    let store = store(3);
    let ranks = (0..3).map(|rank| Settings {
        timeout: Duration::from_secs(2),
        // Nothing listens there: all of this host's 127.0.0.0/8 is loopback.
        advertise: (rank < 2).then(|| "127.0.0.9".to_owned()),
        ..settings(&store, rank, 3)
    });
    let errors: Vec<_> = join_all(ranks).into_iter().map(refusal).collect();
    for error in &errors {
        assert_contains(error, &["missing: "]);
    }
    // Rank 2 tried both.
    for rank in 0..2 {
        let reason = format!("; rank {rank} at 127.0.0.9:");
        assert_contains(&errors[2], &[&reason, "refused"]);
    }
}

#[test]
fn every_rank_errs_when_one_accepts_and_never_answers_case_37() {
    let (bound, told) = ("127.95.0.1", "127.95.0.9");
    let store = store(3);
    let at = |rank| Settings {
        advertise: (rank == 0).then(|| told.to_owned()),
        bind: (rank == 0).then(|| bound.to_owned()),
        ..settings(&store, rank, 3)
    };
    let first = start(at(0));
    let Some(door) = listener_at(bound) else {
        return; // the system does not tell where rank 0 listens
    };
    let mute = TcpListener::bind((told, door.port())).unwrap();
    thread::spawn(move || mute.incoming().for_each(std::mem::forget));
    let others = [1, 2].map(|rank| start(at(rank)));
    for joining in [&first, &others[0], &others[1]] {
        assert_contains(&refusal(result(joining)), &["missing: "]);
    }
    let fresh = self::store(2);
    assert_works(join_all((0..2).map(|rank| settings(&fresh, rank, 2))));
}

#[test]
fn every_rank_errs_at_once_when_the_store_stops() {
    let store = store(3);
    let hour = Duration::from_secs(3600);
    let waiting = [0, 2].map(|rank| {
        start(Settings {
            timeout: hour,
            ..settings(&store, rank, 3)
        })
    });
    thread::sleep(Duration::from_millis(100));
    drop(store);
    for joining in &waiting {
        assert_contains(&refusal(result(joining)), &["missing: 1"]);
    }
}

#[test]
fn rank_that_comes_after_all_is_told_that_the_group_has_formed() {
    let store = store(2);
    let group = join_all((0..2).map(|rank| settings(&store, rank, 2)));
    let error = refusal(join(&settings(&store, 1, 2)));
    assert_contains(&error, &["the group of epoch 0 has formed"]);
    assert_works(group);
}
