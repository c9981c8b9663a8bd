import { signal } from '@preact/signals';

/** Part of the address that selects what is shown: it can be shared and stored. */
export type Parameters = Readonly<Record<string, string>>;

function read(): Parameters {
  return Object.fromEntries(new URLSearchParams(window.location.search));
}

/** Parameters of the address, `view` among them. */
export const parameters = signal<Parameters>(read());

window.addEventListener('popstate', () => {
  parameters.value = read();
});

/** Returns the address of a view. The document may be in any folder of a host. */
export function addressOf(next: Parameters): string {
  const filled = Object.entries(next).filter(([, value]) => value !== '');
  return `${window.location.pathname}?${new URLSearchParams(filled)}`;
}

/** Shows other parameters, as a new entry of the history. */
export function show(next: Parameters): void {
  const address = addressOf(next);
  if (address === `${window.location.pathname}${window.location.search || '?'}`) return;
  window.history.pushState(null, '', address);
  parameters.value = read();
}
