# Two images over one build: `docker build --target broker -t myelin/broker:dev .`, and the same with operator.
# `make image` writes the same images without a container engine.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The ordinary target, named so that build scripts and macros are built without the flag; its C library resolves names
# in an empty root directory too.
RUN host=$(rustc -vV | sed -n 's/^host: //p') \
 && RUSTFLAGS="-C target-feature=+crt-static" CARGO_PROFILE_RELEASE_LTO=thin CARGO_PROFILE_RELEASE_CODEGEN_UNITS=4 \
    cargo build --release --locked --target "$host" -p broker -p operator \
 && mkdir /out \
 && cp "target/$host/release/myelin" "target/$host/release/myelin-operator" /out/

FROM scratch AS broker
COPY --from=build /out/myelin /myelin
USER 65532:65532
EXPOSE 4222 6222 8222
ENTRYPOINT ["/myelin"]

FROM scratch AS operator
COPY --from=build /out/myelin-operator /myelin-operator
USER 65532:65532
EXPOSE 9090
ENTRYPOINT ["/myelin-operator"]
