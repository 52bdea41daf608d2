// oci_judge checks documents of an image by the OCI image specification's own schemas and types.
//
// usage: oci_judge KIND=FILE...   with layout, index, manifest or config as KIND; says what is wrong, and ends with 1 if something is
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/opencontainers/image-spec/schema"
)

// What the specification's module calls them.
var validators = map[string]schema.Validator{
	"layout":   schema.ValidatorMediaTypeLayoutHeader,
	"index":    schema.ValidatorMediaTypeImageIndex,
	"manifest": schema.ValidatorMediaTypeManifest,
	"config":   schema.ValidatorMediaTypeImageConfig,
}

func judge(argument string) error {
	kind, path, _ := strings.Cut(argument, "=")
	validator, ok := validators[kind]
	if !ok {
		return fmt.Errorf("'%s' is none of layout, index, manifest, config", kind)
	}
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return validator.Validate(bytes.NewReader(document))
}

func main() {
	code := 0
	for _, argument := range os.Args[1:] {
		if err := judge(argument); err != nil {
			fmt.Printf("%s: %v\n", argument, err)
			code = 1
		}
	}
	os.Exit(code)
}
