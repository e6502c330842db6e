/** The first of `from .. to` for which `holds`, where it holds for all after one for which it does; `to`: for none. */
export function firstThat(from: number, to: number, holds: (i: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
