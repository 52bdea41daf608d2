//! Where the crates `fastcdc` and `mincdc` cut, for tools/oracle:
//!
//!   oracle_peers fastcdc2020 MIN AVG MAX LEVEL FILE...
//!   oracle_peers mincdc MIN MAX FILE...
//!
//! A line for each file: the lengths of its chunks in order, blanks between them.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use fastcdc::v2020::{FastCDC, Normalization};
use mincdc::{MinCdcHash4, SliceChunker};

type Cutter = Box<dyn Fn(&[u8]) -> Vec<usize>>;

fn level_of(level: usize) -> Result<Normalization, String> {
    match level {
        0 => Ok(Normalization::Level0),
        1 => Ok(Normalization::Level1),
        2 => Ok(Normalization::Level2),
        3 => Ok(Normalization::Level3),
        _ => Err(format!("level {level} is none of 0, 1, 2, 3")),
    }
}

fn cutter_of(algorithm: &str, numbers: &[usize]) -> Result<Cutter, String> {
    match (algorithm, numbers) {
        ("fastcdc2020", &[min, avg, max, level]) => {
            level_of(level)?;
            Ok(Box::new(move |bytes| {
                let level = level_of(level).expect("was checked");
                let chunks = FastCDC::with_level(bytes, min, avg, max, level);
                chunks.map(|chunk| chunk.length).collect()
            }))
        }
        ("mincdc", &[min, max]) => Ok(Box::new(move |bytes| {
            let chunks = SliceChunker::new(bytes, min, max, MinCdcHash4::new());
            chunks.map(|chunk| chunk.len()).collect()
        })),
        _ => Err(format!(
            "{algorithm} with {} numbers is not known here",
            numbers.len()
        )),
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [algorithm, rest @ ..] = arguments else {
        return Err("usage: oracle_peers ALGORITHM NUMBER... FILE...".to_string());
    };
    let number_count = if algorithm == "mincdc" { 2 } else { 4 };
    if rest.len() < number_count {
        return Err(format!("{algorithm} needs {number_count} numbers"));
    }
    let (numbers, files) = rest.split_at(number_count);
    let numbers: Vec<usize> = numbers
        .iter()
        .map(|text| text.parse().map_err(|error| format!("{text}: {error}")))
        .collect::<Result<_, _>>()?;
    let cut = cutter_of(algorithm, &numbers)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for file in files {
        let bytes = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let lengths: Vec<String> = cut(&bytes).iter().map(usize::to_string).collect();
        writeln!(out, "{}", lengths.join(" ")).map_err(|error| error.to_string())?;
    }
    out.flush().map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oracle_peers: {error}");
            ExitCode::FAILURE
        }
    }
}
