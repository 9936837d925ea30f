//! What the observer of waits is told.

use super::script::check_told;
use super::*;

#[test]
fn it_is_told_of_all_who_are_before_a_request() {
    check_told(
        "
        1 S a
        2 S a
        3 X a
        4 S a
        1 X a nowait
        2 end
        1 end
        show a
        3 end
        ",
        &expect![[r#"
            1 S a: granted
            2 S a: granted
            3 X a: waits (3 waits for 1) (3 waits for 2)
            4 S a: waits (4 waits for 3)
            1 X a nowait: Timeout
            2 end
            1 end:  [3 granted]
            show a: T3:X T4:S?
            3 end:  [4 granted]
        "#]],
    );
}

#[test]
fn it_is_told_of_writers_and_of_ranges() {
    check_told(
        "
        1 writes a
        2 behind 1 X a
        1 keeps b..d
        3 keeps c..e
        4 writes c
        5 scans b..d
        ",
        &expect![[r#"
            1 writes a: granted
            2 behind 1 X a: waits (2 waits for 1)
            1 keeps b..d
            3 keeps c..e
            4 writes c: waits (4 waits for 1) (4 waits for 3)
            5 scans b..d: waits (5 waits for 4)
        "#]],
    );
}

#[test]
fn it_is_told_when_a_range_grows_over_a_waiting_request() {
    check_told(
        "
        1 keeps a..c
        3 writes b
        2 keeps a..d
        4 keeps c..d
        1 end
        2 end
        ",
        &expect![[r#"
            1 keeps a..c
            3 writes b: waits (3 waits for 1)
            2 keeps a..d:  (3 waits for 2)
            4 keeps c..d
            1 end
            2 end:  [3 granted]
        "#]],
    );
}

#[test]
fn a_transaction_that_is_rolled_back_anyway_is_the_victim() {
    check_told(
        "
        1 X a
        2 X b
        1 works 1
        2 works 100
        1 X b
        2 X a
        2 looks
        2 end
        1 end
        ",
        &expect![[r#"
            1 X a: granted
            2 X b: granted
            1 works 1
            2 works 100
            1 X b: waits (1 waits for 2)
            2 X a: waits (2 waits for 1)
            2 looks:  [2 deadlock]
            2 end:  [1 granted]
            1 end
        "#]],
    );
}

#[test]
fn it_is_not_told_of_hidden_ones() {
    check_told(
        "
        1 X a
        2 X a
        1 hides
        3 X a
        2 quits
        1 end
        ",
        &expect![[r#"
            1 X a: granted
            2 X a: waits (2 waits for 1)
            1 hides
            3 X a: waits (3 waits for 2)
            2 quits
            1 end:  [3 granted]
        "#]],
    );
}
