// The library with which runtimes execute plugins, of the version that has STATUS and GC.
module seine.dev/newest-libcni

go 1.21

require github.com/containernetworking/cni v1.3.1

require (
	go.opentelemetry.io/otel v1.29.0 // indirect
	go.opentelemetry.io/otel/trace v1.29.0 // indirect
)
