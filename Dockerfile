# Linger in a small image:
#
#   docker build --tag linger:0.1.0 --build-arg LINGER_COMMIT="$(git rev-parse --short=12 HEAD)" .
#   docker run --name linger -p 127.0.0.1:9277:9277 -e LINGER__AUTH__ALLOW_ANONYMOUS=true -v linger:/data linger:0.1.0
#
# The second command serves on this machine alone, without tokens, and keeps the jobs in the volume `linger`.
#
# The first build compiles about 230 packages and takes some minutes; later ones reuse that layer until
# Cargo.lock changes. Both bases must have the same C library. BUILD_IMAGE needs Rust 1.95 or later and a C
# compiler. The tags are exact; .github/dependabot.yml proposes newer ones.
ARG BUILD_IMAGE=rust:1.98.0-slim-bookworm
ARG RUNTIME_IMAGE=debian:bookworm-20260803-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
# Writes the names and versions of all libraries into the program, where scanners of images read them. scripts/release
# uses the same version.
RUN cargo install --locked --version 0.7.7 cargo-auditable
# Compile the dependencies alone first, so that a change of the source does not compile them again.
COPY Cargo.toml Cargo.lock ./
COPY bench/Cargo.toml bench/
COPY clients/rust/Cargo.toml clients/rust/
RUN mkdir -p src bench/src clients/rust/src empty \
 && echo 'fn main() {}' > src/main.rs \
 && touch src/lib.rs bench/src/lib.rs clients/rust/src/lib.rs \
 && cargo auditable build --profile dist --locked \
 && rm -r src bench/src clients/rust/src
COPY . .
# The commit for `linger --version`; the context has no .git. Declared here, so that a new commit does not
# compile the dependencies again.
ARG LINGER_COMMIT=
# cargo compares modification times, and the copied files may be older than the build above.
RUN touch src/main.rs src/lib.rs bench/src/lib.rs clients/rust/src/lib.rs \
 && cargo auditable build --profile dist --locked \
 && strip --keep-section=.dep-v0 target/dist/linger

FROM ${RUNTIME_IMAGE}
ARG LINGER_COMMIT=
LABEL org.opencontainers.image.title="linger" \
      org.opencontainers.image.description="A durable delay-queue server over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${LINGER_COMMIT}"
COPY --from=build /src/target/dist/linger /usr/local/bin/linger
# The authorities that the server trusts when it calls back to https. The small base has none; BUILD_IMAGE does,
# because cargo needs them.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# A number, so that Kubernetes can see that it is not root. A directory that is mounted at /data must belong
# to it: chown 10001:10001 DIRECTORY. A named volume gets the owner from here.
COPY --from=build --chown=10001:10001 /src/empty /data
USER 10001:10001
# To listen on this address, the server needs tokens (LINGER__AUTH__TOKENS_FILE), or
# LINGER__AUTH__ALLOW_ANONYMOUS=true where the port is published on a loopback address or in a closed network
# only; other containers then need the server's name in LINGER__SERVER__ALLOWED_HOSTS. A file of settings is read
# from /etc/linger/linger.toml, or from where LINGER_CONFIG says.
ENV LINGER__SERVER__LISTEN=0.0.0.0:9277 \
    LINGER__EMBEDDED__DATA_DIR=/data
VOLUME /data
EXPOSE 9277
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["linger", "health", "--local"]
ENTRYPOINT ["linger"]
