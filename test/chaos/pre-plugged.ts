/** Lines of a snapshot that name pre-plugged ports (docs/adr/0058-standing-ports.md). */
export interface Named {
  readonly numbered: readonly string[];
  readonly plain: readonly string[];
}

const ends = /\b(sp|far)-(\d{1,5})\b/g;
const bridgePorts = /(?<=^Bridge .*\bports=\[)[^\]]*(?=\])/;

/**
 * Renames a pre-plugged port by its pod, not by its number, which is allocated. Free ports are merged into one: their number depends on the
 * numbers of created and deleted pods; only their equality can be compared.
 *
 * @param used the node's ends of pods' ports, and the name of each
 */
export function byPod({ numbered, plain }: Named, used: ReadonlyMap<string, string>): Named {
  const idle = new Map<string, string[]>();
  const renamed = (line: string): readonly string[] => {
    const text = line.replace(bridgePorts, (ports) => onlyUsed(ports.split(','), used).join()).replaceAll(ends, name(used));
    const number = /\b(?:sp|far)-(\d{1,5})\b/.exec(text)?.[1];
    if (number === undefined) return [text];
    idle.set(number, [...(idle.get(number) ?? []), withoutNumber(text, number)]);
    return [];
  };
  const left = { numbered: numbered.flatMap(renamed), plain: plain.flatMap(renamed) };
  const looks = new Set([...idle.values()].map((lines) => `idle port: ${lines.toSorted().join(' | ')}`));
  return { numbered: left.numbered, plain: [...left.plain, ...looks] };
}

function onlyUsed(ports: readonly string[], used: ReadonlyMap<string, string>): string[] {
  return ports
    .filter((port) => !/^sp-\d+$/.test(port) || used.has(port))
    .map((port) => port.replaceAll(ends, name(used)))
    .toSorted();
}

function name(used: ReadonlyMap<string, string>): (whole: string, end: string, number: string) => string {
  return (whole, end, number) => {
    const pod = used.get(`sp-${number}`);
    return pod === undefined ? whole : `${end} of ${pod}`;
  };
}

function withoutNumber(text: string, number: string): string {
  return text.replaceAll(new RegExp(`(?<=\\b(?:sp-|far-|ofport=|ofport_request=))${number}\\b`, 'g'), 'N');
}
