//! How fast the crates `blake3` (the official implementation), `fastcdc` and `mincdc` are on one
//! thread, for tools/compare_kernels:
//!
//!   speed_peers MEBIBYTES
//!
//! A line of JSON for each: one pass over so many random bytes in memory.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use fastcdc::v2020::{FastCDC, Normalization};
use mincdc::{MinCdcHash4, SliceChunker};

/// As in kerf's benchmark.
const HASHED_CHUNK_BYTES: usize = 8 << 10;

/// Xorshift: no rule of cutting finds a pattern in it.
fn random_bytes(size: usize) -> Vec<u8> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

fn report(name: &str, bytes: &[u8], pass: impl Fn(&[u8]) -> usize) {
    // Once to warm up, as kerf's benchmark does.
    black_box(pass(black_box(bytes)));
    let start = Instant::now();
    let chunk_count = black_box(pass(black_box(bytes)));
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{{\"peer\":\"{name}\",\"bytes_per_second\":{:.0},\"average_chunk_bytes\":{:.0}}}",
        bytes.len() as f64 / seconds,
        bytes.len() as f64 / chunk_count as f64
    );
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let size = match arguments.as_slice() {
        [text] => text.parse::<usize>().ok().filter(|size| (1..=4096).contains(size)),
        _ => None,
    };
    let Some(size) = size else {
        eprintln!("usage: speed_peers MEBIBYTES (1 to 4096)");
        return ExitCode::FAILURE;
    };
    let bytes = random_bytes(size << 20);
    report("blake3", &bytes, |bytes| {
        let chunks = bytes.chunks(HASHED_CHUNK_BYTES);
        chunks.map(|chunk| black_box(blake3::hash(chunk))).count()
    });
    report("fastcdc2020-8k", &bytes, |bytes| {
        FastCDC::with_level(bytes, 2048, 8192, 32768, Normalization::Level1).count()
    });
    report("mincdc-8k", &bytes, |bytes| {
        SliceChunker::new(bytes, 4096, 12288, MinCdcHash4::new()).count()
    });
    ExitCode::SUCCESS
}
