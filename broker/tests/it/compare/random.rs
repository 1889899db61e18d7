//! Random but valid operations of three clients, the same ones on both servers.

use super::{sorted, start_both, trio};

/// Operations per round; a barrier follows each.
const OPERATIONS: usize = 150;

/// A small generator: the same seed gives the same script everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len() as u64) as usize]
    }

    fn subject(&mut self) -> String {
        let tokens = 1 + self.roll(3);
        let token = |dice: &mut Self| dice.pick(&["a", "b", "c", "a*", "x>y", "A"]).to_owned();
        (0..tokens).map(|_| token(self)).collect::<Vec<_>>().join(".")
    }

    fn filter(&mut self) -> String {
        let tokens = 1 + self.roll(3);
        let mut parts: Vec<&str> = (0..tokens).map(|_| self.pick(&["a", "b", "*", "c", "A", "a*"])).collect();
        if self.roll(3) == 0 {
            parts.push(">");
        }
        parts.join(".")
    }

    fn operation(&mut self) -> String {
        match self.roll(12) {
            0..=2 => format!("SUB {} {}\r\n", self.filter(), self.roll(6)),
            3 => format!("UNSUB {}\r\n", self.roll(6)),
            4 => format!("UNSUB {} {}\r\n", self.roll(6), self.roll(4)),
            5..=7 => format!("PUB {} 3\r\nabc\r\n", self.subject()),
            8 => format!("PUB {} {} 0\r\n\r\n", self.subject(), self.subject()),
            9 => format!("HPUB {} 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n", self.subject()),
            10 => format!("PUB {} {} 2\r\nrq\r\n", self.pick(&["nobody.home", "a.b"]), self.subject()),
            _ => format!("SUB {} {}\r\n", self.pick(&["a..b", ".", "a.>.b", "a."]), self.roll(6)),
        }
    }
}

async fn compare(seed: u64) {
    let Some(servers) = start_both("").await else { return };
    let mut clients = [trio(&servers[0]).await, trio(&servers[1]).await];
    let mut dice = Dice(seed);
    let mut script = Vec::new();
    for _ in 0..OPERATIONS {
        let actor = dice.roll(3) as usize;
        // The second client has no headers, so HPUB would end it.
        let operation = loop {
            let operation = dice.operation();
            if actor != 1 || !operation.starts_with("HPUB") {
                break operation;
            }
        };
        script.push((actor, operation.clone()));
        let mut seen = Vec::new();
        for trio in &mut clients {
            trio[actor].send(&operation).await;
            trio[actor].flush().await;
            let mut came = Vec::new();
            for client in trio.iter_mut() {
                came.push(sorted(&client.drain().await));
            }
            seen.push(came);
        }
        assert_eq!(seen[0], seen[1], "seed {seed}, the last of {script:?}");
    }
}

#[tokio::test]
async fn random_operations_give_the_same_answers() {
    for seed in 1..=6 {
        compare(seed).await;
    }
}

#[tokio::test]
async fn fresh_random_operations_give_the_same_answers() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for round in 0..4 {
        compare(now.as_secs().wrapping_mul(1000) + round).await;
    }
}
