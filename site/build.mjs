/** `npm run docs:site`: builds the documents as a site into `site/dist`. `-- --dev` serves them instead; `-- --lint` checks their prose. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const site = import.meta.dirname ?? dirname(fileURLToPath(import.meta.url));
const root = join(site, '..');
const pages = join(site, 'pages');

/** Pages of the root folder that the site has, beside `docs`. */
const topPages = ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md'];

function install() {
  const installed = join(site, 'node_modules', '.package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(join(site, 'package-lock.json')).mtimeMs) return;
  execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: site, stdio: 'inherit' });
}

function copyPages() {
  rmSync(pages, { recursive: true, force: true });
  mkdirSync(pages);
  const inDocs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => join('docs', name));
  for (const page of [...topPages, ...inDocs.filter((name) => name.endsWith('.md'))]) cpSync(join(root, page), join(pages, page));
}

const programs = {
  build: ['vitepress', 'bin/vitepress.js', 'build', '.'],
  dev: ['vitepress', 'bin/vitepress.js', 'dev', '.'],
  lint: ['textlint', 'bin/textlint.js', '--config', '.textlintrc.json', ...lintedPages()],
};

function lintedPages() {
  const folders = ['docs', ...['installation', 'reference', 'contributing', 'design'].map((name) => join('docs', name))];
  const inFolders = folders.flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name)));
  return ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', ...inFolders].filter((name) => name.endsWith('.md')).map((name) => join(root, name));
}

const chosen = process.argv.includes('--dev') ? 'dev' : process.argv.includes('--lint') ? 'lint' : 'build';
install();
copyPages();
const [name = '', program = '', ...args] = programs[chosen];
const { status } = spawnSync(process.execPath, [join(site, 'node_modules', name, program), ...args], { cwd: site, stdio: 'inherit' });
process.exitCode = status ?? 1;
