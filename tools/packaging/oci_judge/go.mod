// The OCI image specification's schemas and types, for tools/packaging/image_test.py, with the sums of all that they are made of.
module kerf/tools/packaging/oci_judge

go 1.25.0

require github.com/opencontainers/image-spec v1.1.1

require (
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v5 v5.3.1 // indirect
)
