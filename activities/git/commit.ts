import { isBranchName } from '../../policy/git/git-source.ts'
import type { PinnedServer } from './address.ts'
import { FetchRefused, type FetchRequest } from './port.ts'
import { type GitEnd, type GitScope, runGit } from './process.ts'
import { credentialsWanted, ProxyFailed, proxyRefusal } from './tunnel.ts'

/** How far back a branch is searched for a commit if the server does not serve commits by name. */
const depths = [50, 500, 5000]
const tip = 'refs/berth/tip'

const quiet = ['--no-tags', '--no-recurse-submodules', '--no-write-fetch-head', '--no-auto-maintenance', '--progress']

/**
 * Downloads one commit without its history; from a server that only serves branches, the branch, with increasing depth. Rejects with
 * `FetchRefused`, or with an Error that may be transient. Customers read nothing of a proxy.
 */
export async function bringCommit(
  scope: GitScope,
  server: PinnedServer,
  { branch, commit }: Pick<FetchRequest, 'branch' | 'commit'>,
  onProgress: (line: string) => void,
): Promise<void> {
  const shown = (line: string) => {
    if (proxyFault(line, server) === null) onProgress(line)
  }
  const fetch = (depth: number, ref: string) =>
    runGit(scope, ['fetch', ...quiet, `--depth=${depth}`, '--', server.url, ref], { onProgress: shown })
  const exact = await fetch(1, commit)
  if (exact.code === 0) return demandCommit(scope, branch, commit)
  if (!isUnknown(exact)) throw proxyFailureOf(exact, server) ?? failureOf(exact)
  if (!isBranchName(branch)) throw unknown(branch, commit)
  for (const depth of depths) {
    const end = await fetch(depth, `+refs/heads/${branch}:${tip}`)
    if (isUnknown(end)) throw unknown(branch, commit)
    if (end.code !== 0) throw proxyFailureOf(end, server) ?? failureOf(end)
    if (await holds(scope, commit)) return
    if (!(await isShallow(scope))) break
  }
  throw unknown(branch, commit)
}

async function demandCommit(scope: GitScope, branch: string, commit: string): Promise<void> {
  if (!(await holds(scope, commit))) throw unknown(branch, commit)
}

async function holds(scope: GitScope, commit: string): Promise<boolean> {
  const { code, output } = await runGit(scope, ['cat-file', '-t', commit])
  return code === 0 && output.toString().trim() === 'commit'
}

async function isShallow(scope: GitScope): Promise<boolean> {
  const { output } = await runGit(scope, ['rev-parse', '--is-shallow-repository'])
  return output.toString().trim() === 'true'
}

function isUnknown({ code, stderr }: GitEnd): boolean {
  return code !== 0 && /not our ref|unadvertised object|couldn't find remote ref|no such remote ref/i.test(stderr)
}

function unknown(branch: string, commit: string): FetchRefused {
  const name = branch.replace(/[\u0000-\u001f\u007f]/g, '?').slice(0, 100)
  return new FetchRefused('INVALID_BRANCH', `The server has no commit ${commit.slice(0, 12)} on the branch ${name}.`)
}

const ofProxy =
  /(Failed to connect to|Could(n't| not) connect to|Could(n't| not) resolve proxy|CONNECT tunnel failed|Received HTTP code \d+ from proxy|Proxy CONNECT aborted).*/i

/** What a line of git says about a proxy that did not do its part; lines of the server start with `remote:`. */
function proxyFault(line: string, { proxy, secure }: PinnedServer): string | null {
  if (!proxy || !/^(fatal|error):/.test(line)) return null
  // In a tunnel, the git server is the one that answers.
  if (!secure && /returned error: 407/.test(line)) return credentialsWanted
  return ofProxy.exec(line)?.[0] ?? null
}

/** The error of a fetch that failed because of the proxy, or null. */
function proxyFailureOf({ stderr }: GitEnd, server: PinnedServer): Error | null {
  for (const line of stderr.split('\n')) {
    const fault = proxyFault(line, server)
    if (fault === null || !server.proxy) continue
    const status = /(?:response|HTTP code) (\d{3})/.exec(fault)?.[1]
    return status ? proxyRefusal(Number(status), server, server.proxy) : new ProxyFailed(server, server.proxy, fault)
  }
  return null
}

/** Git's failure as an error: a refusal where a retry is useless. */
export function failureOf({ code, stderr }: GitEnd): Error {
  const reason = stderr
    .split('\n')
    .filter(line => /^(fatal|error|remote):/.test(line))
    .slice(-3)
    .join(' ')
  if (/Authentication failed|could not read (Username|Password)|returned error: 40[13]/i.test(stderr))
    return new FetchRefused('AUTHENTICATION_REQUIRED', 'The git server refused the access token.')
  if (/out of memory|File size limit|exceeds? .*maximum|unable to allocate/i.test(stderr) || code === 153)
    return new FetchRefused('REPOSITORY_TOO_LARGE', 'The commit is too large to be unpacked.')
  if (/returned error: (30\d|404|410)|redirect|not valid: is this a git repository|shallow capabilities/i.test(stderr))
    return new FetchRefused('CLONE_FAILED', `The repository could not be fetched. ${reason}`)
  return new Error(`Git ended with ${code}. ${reason || stderr.slice(-300)}`)
}
