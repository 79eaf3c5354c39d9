import { isBranchName } from '../../policy/git/git-source.ts'
import { FetchRefused, type FetchRequest } from './port.ts'
import { type GitEnd, type GitScope, runGit } from './process.ts'

/** How far back a branch is searched for a commit, where the server does not give commits by name. */
const depths = [50, 500, 5000]
const tip = 'refs/berth/tip'

const quiet = ['--no-tags', '--no-recurse-submodules', '--no-write-fetch-head', '--no-auto-maintenance', '--progress']

/**
 * Downloads one commit and nothing before it; from a server that only gives branches, its branch, deeper and deeper. Rejects with
 * `FetchRefused`, or with an Error that may heal.
 */
export async function bringCommit(
  scope: GitScope,
  url: string,
  { branch, commit }: Pick<FetchRequest, 'branch' | 'commit'>,
  onProgress: (line: string) => void,
): Promise<void> {
  const fetch = (depth: number, ref: string) =>
    runGit(scope, ['fetch', ...quiet, `--depth=${depth}`, '--', url, ref], { onProgress })
  const exact = await fetch(1, commit)
  if (exact.code === 0) return demandCommit(scope, branch, commit)
  if (!isUnknown(exact)) throw failureOf(exact)
  if (!isBranchName(branch)) throw unknown(branch, commit)
  for (const depth of depths) {
    const found = await fetch(depth, `+refs/heads/${branch}:${tip}`)
    if (isUnknown(found)) throw unknown(branch, commit)
    if (found.code !== 0) throw failureOf(found)
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

function isUnknown({ code, said }: GitEnd): boolean {
  return code !== 0 && /not our ref|unadvertised object|couldn't find remote ref|no such remote ref/i.test(said)
}

function unknown(branch: string, commit: string): FetchRefused {
  const name = branch.replace(/[\u0000-\u001f\u007f]/g, '?').slice(0, 100)
  return new FetchRefused('INVALID_BRANCH', `The server has no commit ${commit.slice(0, 12)} on the branch ${name}.`)
}

/** What git said, as a refusal where trying again cannot help. */
export function failureOf({ code, said }: GitEnd): Error {
  const reason = said
    .split('\n')
    .filter(line => /^(fatal|error|remote):/.test(line))
    .slice(-3)
    .join(' ')
  if (/Authentication failed|could not read (Username|Password)|returned error: 40[13]/i.test(said))
    return new FetchRefused('AUTHENTICATION_REQUIRED', 'The git server refused the access token.')
  if (/out of memory|File size limit|exceeds? .*maximum|unable to allocate/i.test(said) || code === 153)
    return new FetchRefused('REPOSITORY_TOO_LARGE', 'The commit is too large to be unpacked.')
  if (/returned error: (30\d|404|410)|redirect|not valid: is this a git repository|shallow capabilities/i.test(said))
    return new FetchRefused('CLONE_FAILED', `The repository could not be fetched. ${reason}`)
  return new Error(`Git ended with ${code}. ${reason || said.slice(-300)}`)
}
