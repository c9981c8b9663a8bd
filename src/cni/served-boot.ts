/** Name of the journal of addresses, in the agent's state folder. */
export const journalFileName = 'ipam.journal';

/** File with the identifier of the current boot. Source: random(4), "boot_id". */
export const bootIdPath = '/proc/sys/kernel/random/boot_id';

/** Maximum length of the start of the journal up to its first record (bytes). */
export const journalHeadBytes = 256;

/**
 * Reports whether an agent has served this node since the host booted: it then starts a new journal.
 *
 * @param journalHead start of the file; `undefined` if it cannot be read, like `bootId`
 */
export function isServedBoot(journalHead: string | undefined, bootId: string | undefined): boolean {
  const id = bootId?.trim() ?? '';
  return id !== '' && journalHead !== undefined && journalHead.includes(`"op":"open","boot":"${id}"`);
}
