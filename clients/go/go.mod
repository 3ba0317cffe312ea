module github.com/example-org/linger/clients/go

go 1.19
