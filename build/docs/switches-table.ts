import { switchDefault, switches } from '../../src/agent/config/feature-keys.ts';

/** The switches of an agent, each with its default and the release since which it exists. */
export function switchesTable(): string {
  const rows = switches.map(({ key, since, does }) => `| \`${key}\` | \`${switchDefault(key)}\` | ${since} | ${does} |`);
  return ['| Key | Default | Since | Another value |', '|---|---|---|---|', ...rows].join('\n');
}
