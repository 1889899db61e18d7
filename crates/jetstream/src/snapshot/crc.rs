//! Checksums of S2 frames: CRC-32C, eight bytes at a time.

/// Castagnoli's polynomial, lowest bit first.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// Tables: entry `n` of table `t` is what byte `n` does to the checksum `t` bytes later.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum as frames carry it: turned and shifted, so that checksums of data that holds checksums stay good ones.
pub(super) fn masked(bytes: &[u8]) -> u32 {
    const MASK: u32 = 0xA282_EAD8;
    crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let low = u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]) ^ sum;
        let at = |table: usize, byte: u32| TABLES[table][(byte & 0xff) as usize];
        sum = at(7, low) ^ at(6, low >> 8) ^ at(5, low >> 16) ^ at(4, low >> 24);
        let high = &TABLES[..4];
        sum ^= high[3][usize::from(eight[4])] ^ high[2][usize::from(eight[5])];
        sum ^= high[1][usize::from(eight[6])] ^ high[0][usize::from(eight[7])];
    }
    for byte in eights.remainder() {
        sum = sum >> 8 ^ TABLES[0][((sum ^ u32::from(*byte)) & 0xff) as usize];
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xff; 32]), 0x62A8_AB43);
    }
}
