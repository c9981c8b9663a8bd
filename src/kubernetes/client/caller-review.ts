import { createHash } from 'node:crypto';
import * as z from 'zod';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeHttp } from './http-client.ts';

/** Right of a caller to `get` a path, from a bearer token: allowed, unknown token, or known but not allowed. */
type CallerVerdict = 'allowed' | 'unknown' | 'forbidden';

interface CallerReviewOptions {
  readonly http: Pick<KubeHttp, 'json'>;
  /** Path that callers request, not of a resource, e.g. `/metrics`. */
  readonly path: string;
  readonly nowMs?: () => number;
}

/** Lifetime of a positive verdict (ms); of a negative one it is shorter, as the right may be granted meanwhile. */
const yesMs = 60_000;
const noMs = 10_000;
/** Lifetime of a positive verdict while the API server does not answer (ms): that is when metrics are needed. */
const yesWithoutServerMs = 600_000;
const remembered = 256;
/** Maximum number of concurrent reviews of unknown callers: they must not make the agent a burden to the API server. */
const ASKING_MAX = 4;
const PATIENCE_MS = 5_000;
/** Maximum length: longer strings are not tokens of Kubernetes. */
const TOKEN_LENGTH_MAX = 16 * 1024;

interface KnownCaller {
  readonly verdict: CallerVerdict;
  readonly atMs: number;
}

const user = z.object({
  username: z.string().catch(''),
  uid: z.string().optional(),
  groups: z.array(z.string()).optional(),
  extra: z.record(z.string(), z.array(z.string())).optional(),
});
const tokenReview = z.object({ status: z.object({ authenticated: z.boolean().catch(false), user: user.optional() }) });
const accessReview = z.object({ status: z.object({ allowed: z.boolean().catch(false) }) });

/**
 * Reviews bearer tokens with the API server, and the right to `get` a path: TokenReview, then SubjectAccessReview. It needs the right to
 * `create` both.
 *
 * Tokens are kept only as hashes. Source: https://kubernetes.io/docs/reference/access-authn-authz/webhook/.
 */
export class CallerReview {
  readonly #options: CallerReviewOptions;
  readonly #nowMs: () => number;
  /** Verdicts by hash of the token; the oldest first. */
  readonly #known = new Map<string, KnownCaller>();
  readonly #asking = new Map<string, Promise<CallerVerdict>>();

  constructor(options: CallerReviewOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /**
   * @throws SeineError `UNAVAILABLE` if the API server does not answer, or there are too many reviews; `REFUSED` if it does not permit this
   * agent to review
   */
  async verdict(token: string, signal: AbortSignal): Promise<CallerVerdict> {
    if (token === '' || token.length > TOKEN_LENGTH_MAX) return 'unknown';
    const key = createHash('sha256').update(token).digest('base64');
    const known = this.#known.get(key);
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : this.#nowMs() - known.atMs;
    if (known !== undefined && ageMs < (known.verdict === 'allowed' ? yesMs : noMs)) return known.verdict;
    try {
      return await this.#ask(key, token, signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, 'authenticate a scrape');
      if (error.code !== 'REFUSED' && known?.verdict === 'allowed' && ageMs < yesWithoutServerMs) return 'allowed';
      throw error;
    }
  }

  /** Reviews a token. One review per token at a time, shared by all its callers. */
  #ask(key: string, token: string, signal: AbortSignal): Promise<CallerVerdict> {
    const asked = this.#asking.get(key);
    if (asked !== undefined) return asked;
    if (this.#asking.size >= ASKING_MAX) throw new SeineError('UNAVAILABLE', 'too many concurrent reviews of callers');
    const asking = this.#review(token, within(signal, PATIENCE_MS))
      .then((verdict) => {
        this.#remember(key, verdict);
        return verdict;
      })
      .finally(() => this.#asking.delete(key));
    this.#asking.set(key, asking);
    return asking;
  }

  #remember(key: string, verdict: CallerVerdict): void {
    this.#known.delete(key);
    this.#known.set(key, { verdict, atMs: this.#nowMs() });
    const [oldest] = this.#known.keys();
    if (this.#known.size > remembered && oldest !== undefined) this.#known.delete(oldest);
  }

  async #review(token: string, signal: AbortSignal): Promise<CallerVerdict> {
    const who = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } };
    const { status } = read(tokenReview, await this.#post('/apis/authentication.k8s.io/v1/tokenreviews', who, signal));
    if (!status.authenticated || !status.user || status.user.username === '') return 'unknown';
    const { username, ...more } = status.user;
    const spec = { user: username, ...more, nonResourceAttributes: { path: this.#options.path, verb: 'get' } };
    const may = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
    const answer = read(accessReview, await this.#post('/apis/authorization.k8s.io/v1/subjectaccessreviews', may, signal));
    return answer.status.allowed ? 'allowed' : 'forbidden';
  }

  async #post(path: string, body: object, signal: AbortSignal): Promise<unknown> {
    return await this.#options.http.json({ method: 'POST', path, body }, signal);
  }
}

function read<T>(schema: z.ZodType<T>, answer: unknown): T {
  const parsed = schema.safeParse(answer);
  if (!parsed.success) throw new SeineError('UNAVAILABLE', 'the API server’s answer is not a review');
  return parsed.data;
}
