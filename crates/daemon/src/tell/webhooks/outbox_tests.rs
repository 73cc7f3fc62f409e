//! Tests of order, retries, giving up, and a disk that accepts no writes.

use super::*;

fn outbox(place: &tempfile::TempDir) -> Outbox {
    Outbox::open(OutboxFolder::of(place.path())).unwrap()
}

#[test]
fn the_order_of_a_session_is_kept_and_others_do_not_wait_for_it() {
    let place = tempfile::tempdir().unwrap();
    let outbox = outbox(&place);
    for (id, order) in [("1", "a"), ("2", "a"), ("3", "b")] {
        outbox.put(id, order, None, "{}".into()).unwrap();
    }
    outbox.put("2", "a", None, "{}".into()).unwrap();
    assert_eq!(outbox.status().pending, 3, "one id is one webhook");
    let (first, delivery) = outbox.next().unwrap();
    assert_eq!(delivery.id, "1");
    assert_eq!(outbox.next().unwrap().1.id, "3", "the second of `a` waits for the first");
    assert!(!outbox.failed(&first, delivery, "no".into()).unwrap());
    assert_eq!(outbox.next().unwrap().1.id, "1", "and after a failure too");
    outbox.delivered(&first).unwrap();
    assert_eq!(outbox.next().unwrap().1.id, "2");
}

#[test]
fn what_was_taken_on_survives_and_is_given_up_only_after_many_tries() {
    let place = tempfile::tempdir().unwrap();
    outbox(&place).put("1", "a", Some("http://x".into()), "{\"x\":1}".into()).unwrap();
    for tries in 1..=TRIES {
        let again = outbox(&place);
        assert_eq!(again.status().pending, 1);
        let (name, delivery) = again.next().unwrap();
        assert_eq!((delivery.tries, delivery.body.as_str()), (tries - 1, "{\"x\":1}"));
        assert_eq!(again.failed(&name, delivery, "no".into()).unwrap(), tries == TRIES);
    }
    let status = outbox(&place).status();
    assert_eq!((status.pending, status.dead), (0, 1));
}

#[test]
fn what_a_runner_put_is_found_without_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let outbox = outbox(&place);
    outbox.put("1", "a", None, "{}".into()).unwrap();
    let theirs = Delivery::new("2", "b", None, "{}".into());
    OutboxFolder::of(place.path()).put(&theirs, clock::now()).unwrap();
    outbox.rescan().unwrap();
    outbox.rescan().unwrap();
    assert_eq!(outbox.status().pending, 2);
    let ids = [outbox.next().unwrap().1.id, outbox.next().unwrap().1.id];
    assert_eq!(ids, ["1", "2"]);
}

#[test]
fn a_disk_that_takes_nothing_loses_nothing_while_the_daemon_lives() {
    let place = tempfile::tempdir().unwrap();
    let outbox = outbox(&place);
    outbox.put("1", "a", None, "{}".into()).unwrap();
    let (folder, away) = (place.path().join("outbox"), place.path().join("away"));
    std::fs::rename(&folder, &away).unwrap();
    assert!(outbox.put("2", "a", None, "{}".into()).is_err());
    assert!(outbox.put_somehow("2", "a", "{}".into()).is_some());
    std::fs::rename(&away, &folder).unwrap();
    let (name, delivery) = outbox.next().unwrap();
    std::fs::rename(&folder, &away).unwrap();
    assert!(outbox.failed(&name, delivery, "no".into()).is_err());
    std::fs::rename(&away, &folder).unwrap();
    // It is tried again all the same, and its tries were counted.
    let (name, delivery) = outbox.next().unwrap();
    assert_eq!((delivery.id.as_str(), delivery.tries), ("1", 1));
    outbox.delivered(&name).unwrap();
    let (name, delivery) = outbox.next().unwrap();
    assert_eq!(delivery.id, "2");
    outbox.delivered(&name).unwrap();
    assert_eq!(outbox.status().pending, 0);
}

#[test]
fn waits_double_up_to_five_minutes() {
    let waits: Vec<u64> = (1..12).map(|tries| wait_after(tries).as_secs()).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
}
