import { pathNotFound } from './api-error.ts';
import type { ApiRequest, WholeAnswer } from './api-request.ts';
import type { Core } from './core.ts';

export function serveOpenApi(_core: Core, _request: ApiRequest): WholeAnswer {
  throw pathNotFound();
}
