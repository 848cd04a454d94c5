#!/usr/bin/env bash
# Puts one bug after the other into the commit protocol, into admission and into the writer of a journal elsewhere (all, or those named), and
# shows that the model or the simulation of the first, the decider of the second, or the tests of the third, find each.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never RUST_BACKTRACE=0
CARGO_TARGET_DIR="$(realpath -m "${CARGO_TARGET_DIR:-target}")/bugs"
export CARGO_TARGET_DIR

of_protocol=(
    vote_before_the_record
    forget_promises
    change_the_decision
    answer_before_the_decision
    abort_in_doubt
    apply_out_of_order
    never_wake
    overlook_reliance
    wait_out_of_order
    acknowledge_from_memory
    dismiss_from_memory
)
of_admission=(
    overlook_thresholds
    overlook_classes
    overlook_needs
    overlook_contents
    overlook_what_is_due
    functions_stand_still
    hold_no_answer
    forget_the_line
)
of_writer=(
    expect_anew
    keep_the_tail
)
all=("${of_protocol[@]}" "${of_admission[@]}" "${of_writer[@]}")
readonly bugs=("${@:-${all[@]}}")

# Builds a bug into the crates of the workspace and into no other, so that those are built once.
plant_bug() {
    export RUSTC_WORKSPACE_WRAPPER="$CARGO_TARGET_DIR/with-$1"
    mkdir -p "$CARGO_TARGET_DIR"
    printf '#!/bin/sh\nexec "$@" --cfg planted=\\"%s\\"\n' "$1" >"$RUSTC_WORKSPACE_WRAPPER"
    chmod +x "$RUSTC_WORKSPACE_WRAPPER"
}

survivors=()
for bug in "${bugs[@]}"; do
    plant_bug "$bug"
    tests=(cargo test --quiet --package enact-models)
    layers=(--test=commit --test=simulation)
    [[ " ${of_admission[*]} " == *" $bug "* ]] && layers=(--test=decider)
    if [[ " ${of_writer[*]} " == *" $bug "* ]]; then
        tests=(cargo test --quiet --package enact-journal --all-features)
        layers=(--lib --test=nats)
    fi
    "${tests[@]}" "${layers[@]}" --no-run
    finder=
    for layer in "${layers[@]}"; do
        if ! found=$("${tests[@]}" "$layer" 2>&1); then
            finder=$layer
            break
        fi
    done
    if [ -n "$finder" ]; then
        echo "$bug: found by ${finder#--test=}, $(grep -m1 -E '^(no promise|all ends|seed [0-9]+:)|panicked' <<<"$found" | cut -c1-300)"
    else
        survivors+=("$bug")
        echo "$bug: NOT FOUND"
    fi
done
echo "$((${#bugs[@]} - ${#survivors[@]})) of ${#bugs[@]} planted bugs were found"
[ ${#survivors[@]} -eq 0 ]
