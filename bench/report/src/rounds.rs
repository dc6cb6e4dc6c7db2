//! From several rounds to one number.

/// The middle value; of an even count the mean of the two in the middle. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The spread of the rounds: half the distance between the extremes, relative to the median.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let highest = values.iter().copied().fold(f64::MIN, f64::max);
    let lowest = values.iter().copied().fold(f64::MAX, f64::min);
    (middle > 0.0).then(|| (highest - lowest) / 2.0 / middle)
}

/// The smallest value that `percent` of the sorted values do not exceed. `None` without values.
pub fn percentile(sorted: &[u32], percent: f64) -> Option<u32> {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_care_for_order_or_outliers() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[900.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn the_spread_is_relative_to_the_median() {
        assert_eq!(spread(&[90.0, 100.0, 110.0]), Some(0.1));
        assert_eq!(spread(&[5.0]), Some(0.0));
        assert_eq!(spread(&[0.0, 0.0]), None);
    }

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50.0), Some(50));
        assert_eq!(percentile(&hundred, 99.0), Some(99));
        assert_eq!(percentile(&[3], 99.0), Some(3));
        assert_eq!(percentile(&[], 99.0), None);
    }
}
