//! The store on disk: plain, compressed, encrypted; with little memory and small blocks, so that all is read back and blocks come and go.

use std::path::Path;
use std::sync::Arc;

use store::crypt::{Cipher, Keyring, MasterKey, SeededEntropy};
use store::disk::fault::{FaultDisk, Loss};
use store::stream::{Cache, Compression, FileOptions, FileStore, StreamStore};

use crate::workload::{self, Kind};

fn options(seed: u64) -> FileOptions {
    let cache = Arc::new(Cache::new([0, 20_000, 1 << 20][(seed % 3) as usize]));
    let mut options = FileOptions::new(seed, cache);
    options.block_bytes = 4096 << (seed % 4);
    if seed % 4 >= 2 {
        options.compression = Compression::S2;
    }
    if seed % 5 >= 3 {
        let cipher = if seed % 5 == 3 { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
        let key = MasterKey::new(b"secret");
        options.keyring = Some(Arc::new(Keyring::new(cipher, key, None, Arc::new(SeededEntropy::new(seed)))));
    }
    options
}

#[test]
fn the_file_store_is_like_the_model_and_comes_back_to_its_checkpoints() {
    workload::run(1000, |seed, run| {
        let disk = FaultDisk::new(seed);
        let mut options = options(seed);
        let mut opened = 0u64;
        let open = &mut || {
            // Sometimes the process ends, sometimes the power goes.
            opened += 1;
            disk.crash([Loss::Nothing, Loss::Everything, Loss::Random][(opened % 3) as usize]);
            options.cache = Arc::new(Cache::new([0, 20_000, 1 << 20][(opened % 3) as usize]));
            let (store, recovered) =
                FileStore::open(Arc::new(disk.clone()), Path::new("/data/s"), options.clone()).unwrap();
            (Box::new(store) as Box<dyn StreamStore>, recovered)
        };
        let size = |subject: usize, headers: usize, payload: usize| {
            (30 + subject + payload + if headers > 0 { 4 + headers } else { 0 }) as u64
        };
        run(Kind { size, open, durable: true });
    });
}
