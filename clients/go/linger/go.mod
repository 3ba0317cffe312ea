module github.com/example-org/linger/clients/go/linger

go 1.19
