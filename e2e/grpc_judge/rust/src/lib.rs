//! What tonic makes of proto/: it compiles, and its bytes are those of docs/spec/transcript.md.

pub mod v1 {
    tonic::include_proto!("kerf.v1");
}

#[cfg(test)]
mod tests {
    use super::v1::{self, upload_frame::Frame};
    use prost::Message;

    // Of a type that there is: a client of any transport.
    #[allow(dead_code)]
    type Client<T> = v1::chunking_service_client::ChunkingServiceClient<T>;

    #[test]
    fn opens_as_in_the_transcript() {
        let open = v1::Open {
            repository: "home".into(),
            profile: "fastcdc2020-8k".into(),
            digest_algorithm: v1::DigestAlgorithm::Blake3 as i32,
            store_epoch: 1,
            agent: "transcript/1".into(),
            ..Default::default()
        };
        let request = v1::UploadRequest {
            frames: vec![v1::UploadFrame { frame: Some(Frame::Open(open)) }],
        };
        let hex: String = request.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
        let page = std::fs::read_to_string(std::env::var("KERF_TRANSCRIPT").unwrap()).unwrap();
        let said: String = page
            .split("opens the stream")
            .nth(1)
            .and_then(|rest| rest.split("```").nth(3))
            .unwrap()
            .split_whitespace()
            .collect();
        assert_eq!(hex, said);
    }

    #[test]
    fn an_absent_number_is_not_0() {
        let quota = v1::RepositoryQuota { max_entries: Some(0), ..Default::default() };
        assert_eq!(quota.encode_to_vec(), [0x08, 0]);
        assert!(v1::RepositoryQuota::default().encode_to_vec().is_empty());
    }
}
