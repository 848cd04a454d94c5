#!/usr/bin/env bash
# Puts one bug after the other into enact-actors (all, or those named), and shows that its models find each under
# shuttle. Takes a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never ENACT_SCHEDULES=3000 RUST_BACKTRACE=0
CARGO_TARGET_DIR="$(realpath -m "${CARGO_TARGET_DIR:-target}")/bugs"
export CARGO_TARGET_DIR

all=(
    rest_without_looking
    rest_without_asking
    sleep_without_looking
    keep_the_worker
    take_up_the_undecided
    take_up_the_retracted
    keep_what_was_tried
    do_effects_at_once
    forward_no_dependency
    commit_before_the_dependency
    begin_before_the_commit
    wake_only_once
    go_on_against_a_signal
    reuse_a_kept_waker
    overlook_an_answer
    forget_a_new_owner
    overlook_the_last_waker
    sleep_without_entering
    list_only_once
    rest_beside_callers
    overlook_a_caller
)
readonly bugs=("${@:-${all[@]}}")
readonly models=(cargo test --profile library --quiet --package enact-actors --test models)
export RUSTFLAGS="--cfg enact_shuttle"

# Builds a bug into the crates of the workspace and into no other, so that those are built once.
plant_bug() {
    export RUSTC_WORKSPACE_WRAPPER="$CARGO_TARGET_DIR/with-$1"
    mkdir -p "$CARGO_TARGET_DIR"
    printf '#!/bin/sh\nexec "$@" --cfg planted=\\"%s\\"\n' "$1" >"$RUSTC_WORKSPACE_WRAPPER"
    chmod +x "$RUSTC_WORKSPACE_WRAPPER"
}

# Prints the names of the models that fail with a bug. A build that fails finds nothing.
finders() {
    local report
    plant_bug "$1"
    "${models[@]}" --no-run
    report=$("${models[@]}" 2>&1) || sed -n 's/^    \([a-z_]*::[a-z0-9_]*\)$/\1/p' <<<"$report" | sort -u
}

survivors=()
for bug in "${bugs[@]}"; do
    found=$(finders "$bug")
    if [ -n "$found" ]; then
        echo "$bug: found by $(wc -l <<<"$found") models"
        sed 's/^/    /' <<<"$found"
    else
        survivors+=("$bug")
        echo "$bug: NOT FOUND"
    fi
done
echo "$((${#bugs[@]} - ${#survivors[@]})) of ${#bugs[@]} planted bugs were found"
[ ${#survivors[@]} -eq 0 ]
