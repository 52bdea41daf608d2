// KERF_PROTO is where the protos are, and nothing is said of them but their names.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::path::PathBuf::from(std::env::var("KERF_PROTO")?);
    println!("cargo:rerun-if-env-changed=KERF_PROTO");
    let protos = ["chunking", "index", "repository", "routing", "status"]
        .map(|name| folder.join(format!("kerf/v1/{name}.proto")));
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_protos(&protos, &[folder])?;
    Ok(())
}
