//! Storage that changes while it is read.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::storage::{Examined, Storage, conversation};

#[test]
fn files_that_come_and_go_while_they_are_listed_change_nothing_else() {
    let storage = Storage::sound();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let restless = scope.spawn(|| {
            let mut round = 0u32;
            while !over.load(Ordering::Relaxed) {
                let id = format!("f{:07x}-0000-4000-8000-000000000000", round % 64);
                let path = storage.path(&format!("projects/-work/{id}.jsonl"));
                let note = storage.path(&format!("sessions/{}.json", 4_000_000 + round % 64));
                std::fs::write(&path, conversation(&id, "short-lived")).unwrap();
                std::fs::write(&note, "{\"pid\":1,").unwrap();
                if round.is_multiple_of(3) {
                    std::fs::rename(&path, path.with_extension("moved")).unwrap();
                    let _ = std::fs::remove_file(path.with_extension("moved"));
                } else {
                    std::fs::remove_file(&path).unwrap();
                }
                std::fs::remove_file(&note).unwrap();
                round += 1;
            }
            round
        });
        for _ in 0..40 {
            let list = ["list", "--since", "all", "--usage", "--json"];
            let output = storage.home.agentctl(&list).ok();
            for source in output.json()["sources"].as_array().unwrap() {
                for warning in source["warnings"].as_array().unwrap() {
                    let warning = warning.as_str().unwrap();
                    assert!(warning.contains("/f0000") || warning.contains("/40000"), "{warning}");
                }
            }
            let strict = storage.home.agentctl(&["list", "--json", "--strict"]);
            assert!(matches!(strict.code, Some(0 | 6)), "{strict:?}");
            Examined::new(output, &strict);
            let seen =
                storage.home.agentctl(&["status", "50000000-0000-4000-8000-000000000001", "--json"]).ok();
            assert_eq!(seen.json()["outcome"], "completed");
        }
        over.store(true, Ordering::Relaxed);
        println!("{} files came and went", restless.join().unwrap());
    });
}
