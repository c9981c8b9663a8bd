/**
 * Shortens a list of steps of which the last one fails, by omitting halves, quarters and so on of the earlier ones (delta debugging, Zeller
 * and Hildebrandt 2002, of complements only).
 *
 * @param fails reports whether these steps, in a fresh lab, leave a difference
 * @param triesMost limit of tries, each of which costs a lab
 */
export async function shrink(
  numbers: readonly number[],
  fails: (numbers: readonly number[]) => Promise<boolean>,
  triesMost: number,
): Promise<readonly number[]> {
  const last = numbers.slice(-1);
  let before: readonly number[] = numbers.slice(0, -1);
  let tries = triesMost;
  if (tries-- > 0 && (await fails(last))) return last;
  for (let parts = 2; before.length > 0 && tries > 0; ) {
    const size = Math.ceil(before.length / parts);
    const without = await firstThatFails(before, size, async (rest) => tries-- > 0 && (await fails([...rest, ...last])));
    if (without !== undefined) [before, parts] = [without, Math.max(2, parts - 1)];
    else if (size === 1) break;
    else parts = Math.min(before.length, parts * 2);
  }
  return [...before, ...last];
}

async function firstThatFails(
  all: readonly number[],
  size: number,
  fails: (rest: readonly number[]) => Promise<boolean>,
): Promise<readonly number[] | undefined> {
  for (let at = 0; at < all.length; at += size) {
    const rest = [...all.slice(0, at), ...all.slice(at + size)];
    if (await fails(rest)) return rest;
  }
  return undefined;
}
