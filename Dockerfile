# Linger in a small image. Build it with: docker build -t linger .
# Both bases must have the same C library.
ARG BUILD_IMAGE=rust:1-slim-bookworm
ARG RUNTIME_IMAGE=debian:bookworm-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
# The dependencies alone first: this layer is reused until Cargo.lock changes.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src /empty \
 && echo 'fn main() {}' > src/main.rs \
 && touch src/lib.rs \
 && cargo build --release --locked \
 && rm -r src
COPY . .
# cargo goes by modification times, and those of the copy may be older than the build above.
RUN touch src/main.rs src/lib.rs \
 && cargo build --release --locked \
 && strip target/release/linger

FROM ${RUNTIME_IMAGE}
COPY --from=build /src/target/release/linger /usr/local/bin/linger
# A number, so that Kubernetes can see that it is not root.
COPY --from=build --chown=10001:10001 /empty /data
USER 10001:10001
# Listening for others needs tokens (LINGER__AUTH__TOKENS_FILE), or LINGER__AUTH__ALLOW_ANONYMOUS=true where
# the port is published on a loopback address or in a closed network only.
ENV LINGER__SERVER__LISTEN=0.0.0.0:9277 \
    LINGER__EMBEDDED__DATA_DIR=/data
VOLUME /data
EXPOSE 9277
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["linger", "health"]
ENTRYPOINT ["linger"]
