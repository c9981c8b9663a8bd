/** The journal of addresses, in the folder of the agent's state. */
export const journalFileName = 'ipam.journal';

/** Where Linux says which boot of the machine this is. Source: random(4), "boot_id". */
export const bootIdPath = '/proc/sys/kernel/random/boot_id';

/** As much of the journal as its first record may begin with (octets). */
export const journalHeadBytes = 256;

/**
 * Whether an agent has served this node since the machine was started: it begins its journal anew then.
 *
 * @param journalHead how the file begins; `undefined` if it cannot be read, as `bootId`
 */
export function isServedBoot(journalHead: string | undefined, bootId: string | undefined): boolean {
  const id = bootId?.trim() ?? '';
  return id !== '' && journalHead !== undefined && journalHead.includes(`"op":"open","boot":"${id}"`);
}
