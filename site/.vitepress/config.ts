import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type MarkdownIt from 'markdown-it';
import { type DefaultTheme, defineConfig, type MarkdownEnv, type MarkdownRenderer } from 'vitepress';

/** Copies of the pages, by `build.mjs`: Node finds the packages of this folder from there. */
const root = fileURLToPath(new URL('../pages', import.meta.url));

const isPage = (path: string): boolean => existsSync(join(root, path)) && path.endsWith('.md');

function titleOf(path: string): string {
  const [, title = path] = /^# (.*)$/m.exec(readFileSync(join(root, path), 'utf8')) ?? [];
  return title.replaceAll('`', '');
}

const item = (path: string): DefaultTheme.SidebarItem => ({
  text: titleOf(path),
  link: `/${path.replace(/(^|\/)README\.md$/, '$1').replace(/\.md$/, '')}`,
});

function folder(path: string): readonly string[] {
  return readdirSync(join(root, path))
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .sort()
    .map((name) => `${path}/${name}`);
}

const section = (text: string, pages: readonly string[], collapsed = false): DefaultTheme.SidebarItem => ({
  text,
  collapsed,
  items: pages.filter((path) => existsSync(join(root, path))).map(item),
});

const named = (folderName: string, names: readonly string[]): readonly string[] => {
  const first = names.map((name) => `${folderName}/${name}.md`);
  return [...first, ...folder(folderName).filter((path) => !first.includes(path))];
};

const start = ['getting-started', 'feature-matrix', 'faq'].map((name) => `docs/${name}.md`);
const operation = ['troubleshooting', 'operations', 'reliability', 'performance', 'security'].map((name) => `docs/${name}.md`);
const firstGuides = ['configuration', 'services', 'network-policy'].map((name) => `docs/${name}.md`);
const otherGuides = folder('docs').filter((path) => ![...start, ...operation, ...firstGuides].includes(path));

const sidebar: DefaultTheme.SidebarItem[] = [
  section('Start', start),
  section(
    'Installation',
    named('docs/installation', [
      'requirements',
      'images',
      'verify-images',
      'manifest',
      'helm',
      'kubeadm',
      'kube-proxy-replacement',
      'upgrade',
      'uninstall',
    ]),
  ),
  section('Guides', [...firstGuides, ...otherGuides]),
  section('Operation', [...operation, 'SECURITY.md']),
  section('Reference', folder('docs/reference')),
  section('Design', named('docs/design', ['architecture', 'pipeline', 'glossary']), true),
  section('Contributing', ['CONTRIBUTING.md', ...folder('docs/contributing')], true),
  section('Decisions', ['docs/adr/README.md', ...folder('docs/adr')], true),
  section('Records', ['docs/records/README.md', ...folder('docs/records'), ...folder('docs/records/performance')], true),
];

/** Links to files that are not pages, such as sources, become text: the site does not have these files. */
function linksWithinSite(md: MarkdownIt): void {
  const open = md.renderer.rules['link_open'];
  const close = md.renderer.rules['link_close'];
  const dropped: boolean[] = [];
  md.renderer.rules['link_open'] = (tokens, at, options, env: { readonly path?: string; readonly relativePath?: string }, self) => {
    const token = tokens[at];
    const href = token?.attrGet('href') ?? '';
    const target = targetOf(href, env.path ?? '');
    dropped.push(target !== undefined && !isPage(target));
    if (dropped.at(-1)) return '';
    return open?.(tokens, at, options, env, self) ?? self.renderToken(tokens, at, options);
  };
  md.renderer.rules['link_close'] = (tokens, at, options, env, self) => {
    if (dropped.pop()) return '';
    return close?.(tokens, at, options, env, self) ?? self.renderToken(tokens, at, options);
  };
}

/** The file that a relative link names, relative to the root of the repository. */
function targetOf(href: string, page: string): string | undefined {
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return undefined;
  const file = decodeURI(href.replace(/#.*$/, ''));
  return resolve(dirname(page), file).slice(resolve(root).length + 1);
}

/** Paths in tables may break after a slash. */
function breakablePaths(md: MarkdownIt): void {
  md.renderer.rules.code_inline = (tokens, at) => {
    const text = md.utils.escapeHtml(tokens[at]?.content ?? '').replaceAll('/', '/<wbr>');
    return `<code v-pre>${text}</code>`;
  };
}

/** Diagrams are drawn in the browser. */
function mermaidBlocks(md: MarkdownIt): void {
  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, at, options, env, self) => {
    const token = tokens[at];
    if (token?.info.trim() === 'mermaid') return `<MermaidDiagram source="${encodeURIComponent(token.content)}" />\n`;
    return fence?.(tokens, at, options, env, self) ?? '';
  };
}

/** Text of a page for the search: decisions and records of runs are not found, so that they do not hide the guides. */
function searched(source: string, env: MarkdownEnv, md: MarkdownRenderer): string {
  return /^docs\/(?:adr|records)\//.test(env.relativePath) || env.relativePath === 'CHANGELOG.md' ? '' : md.render(source, env);
}

export default defineConfig({
  title: 'Seine',
  description: 'A Kubernetes network for Linux nodes on Open vSwitch',
  lang: 'en',
  srcDir: 'pages',
  outDir: './dist',
  cacheDir: './.cache',
  cleanUrls: false,
  lastUpdated: false,
  rewrites: { 'README.md': 'index.md', 'docs/adr/README.md': 'docs/adr/index.md', 'docs/records/README.md': 'docs/records/index.md' },
  markdown: {
    attrs: { disable: true },
    config: (md) => {
      linksWithinSite(md);
      breakablePaths(md);
      mermaidBlocks(md);
    },
  },
  themeConfig: {
    search: { provider: 'local', options: { detailedView: true, _render: searched } },
    nav: [
      { text: 'Get started', link: '/docs/getting-started' },
      { text: 'Guides', link: '/docs/services' },
      { text: 'Reference', link: '/docs/reference/seinectl' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar,
    outline: { level: [2, 3] },
    docFooter: { prev: false, next: false },
  },
});
