//! Looks at many processes on two cores at once. What the kernel says of one takes some hundredths of a millisecond, most of
//! them in the kernel.

/// Fewer are looked at sooner than a thread starts.
const WORTH_A_THREAD: usize = 24;

/// Does the work on both halves of the items at once; the results are in the order of the items. Where no thread can be
/// had, or for few items, all are one part.
pub fn in_halves<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    if items.len() < WORTH_A_THREAD {
        return vec![work(items)];
    }
    let (first, second) = items.split_at(items.len() / 2);
    std::thread::scope(|scope| {
        let beside = std::thread::Builder::new().spawn_scoped(scope, || work(second));
        let mut done = vec![work(first)];
        done.push(match beside {
            Ok(beside) => beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => work(second),
        });
        done
    })
}

#[cfg(test)]
mod tests {
    use super::in_halves;

    #[test]
    fn nothing_is_left_out_and_the_order_stays() {
        for count in [0, 1, 23, 24, 25, 1000] {
            let items: Vec<usize> = (0..count).collect();
            let parts = in_halves(&items, <[usize]>::to_vec);
            assert_eq!(parts.len(), if count < 24 { 1 } else { 2 });
            assert_eq!(parts.concat(), items);
        }
    }
}
