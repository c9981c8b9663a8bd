import { expect, it } from 'vitest';
import { commandOf, shellCommands } from './page-commands.ts';

const page = `# Title

\`\`\`sh
first --of title      # with a comment
\`\`\`

## Part

\`\`\`yaml
no: command
\`\`\`
\`\`\`sh
# a comment alone
second '#not a comment'
third
\`\`\`
`;

it('reads the commands below a heading', () => {
  expect(shellCommands(page, 'Title')).toEqual(['first --of title']);
  expect(shellCommands(page, 'Part')).toEqual(["second '#not a comment'", 'third']);
  expect(shellCommands(page, 'None')).toEqual([]);
});

it('finds the commands of the pages', () => {
  expect(commandOf('docs/installation/manifest.md', 'Install', 'kubectl apply')).toBe('kubectl apply -f seine.yaml');
  expect(() => commandOf('docs/installation/manifest.md', 'Install', 'kubectl')).toThrow('not one');
});
