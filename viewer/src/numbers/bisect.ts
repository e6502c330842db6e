/** Returns the first number in `from..to` for which `holds` is true, or `to`. Once true, `holds` must stay true. */
export function firstThat(from: number, to: number, holds: (i: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
