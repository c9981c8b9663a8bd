/** `npm run docs`: rewrites the generated pages. */
import { writeFileSync } from 'node:fs';
import { generatedPages } from './pages.ts';

for (const { path, text, fresh } of generatedPages()) {
  if (!fresh) writeFileSync(path, text);
  console.error(`${fresh ? 'fresh  ' : 'written'} ${path}`);
}
