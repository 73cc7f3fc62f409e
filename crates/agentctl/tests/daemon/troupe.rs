//! What the soak test, the endurance test and a benchmark rest on.

use agentctl_testkit::TestHome;
use agentctl_testkit::troupe::{CAST, Player};

#[test]
fn everybody_is_taken_for_who_they_play() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let mut players: Vec<Player> = CAST.iter().map(|(agent, _)| Player::start(&home, agent)).collect();
    let told = |after: &[&str], players: &[Player]| {
        let list = home.agentctl(&["list", "--json"]).ok().json();
        for (((agent, _), player), status) in CAST.iter().zip(players).zip(after) {
            let all = list["sessions"].as_array().unwrap();
            let found = all.iter().find(|session| session["id"] == player.id.as_str());
            let found = found.unwrap_or_else(|| panic!("{agent} is not live: {list:#}"));
            assert_eq!(
                (&found["adapter"], &found["status"]),
                (&(*agent).into(), &(*status).into()),
                "{found:#}"
            );
        }
    };
    told(&["running"; CAST.len()], &players);
    let after: Vec<&str> =
        players.iter().map(|player| if player.finish_turn() { "idle" } else { "running" }).collect();
    assert_eq!(after.iter().filter(|status| **status == "idle").count(), 3, "{after:?}");
    told(&after, &players);
    players.iter_mut().for_each(Player::kill);
    assert_eq!(home.agentctl(&["list", "-q"]).ok().stdout, "");
}
