import { tmpdir } from 'node:os'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { MiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { type HostProxies, noProxies } from '../../policy/hosts/proxy-address.ts'
import { type Resolve, systemResolve } from './address.ts'
import { bringCommit } from './commit.ts'
import { credentialText, gitConfig, proxyCredentialText } from './config.ts'
import { findRepository } from './discovery.ts'
import { placeCommit } from './files.ts'
import { FetchRefused, type FetchRequest, type Git } from './port.ts'
import type { GitScope } from './process.ts'
import { makeRepository, removeAbandoned, removeRepository, watchSize } from './scratch.ts'
import { trustContexts } from './trust.ts'
import { ProxyFailed } from './tunnel.ts'

export interface GitCliOptions {
  /** The program; defaults to the one on the system's path. */
  git?: string
  /** Folder for downloads until their files are written; other users must be able to reach it. */
  scratch?: string
  /** The file with all certificate authorities that fetches trust, at the time of a fetch; null = those of git and of Node. */
  caBundle?: () => Promise<string | null>
  /** How git servers are reached; directly by default. */
  proxies?: HostProxies
  /** Tells operators of a proxy that fails. */
  warn?: (facts: object, message: string) => void
  resolve?: Resolve
  /** How long a server that accepted the connection may take to start TLS; default 15 s. */
  handshakeSeconds?: number
  /** How long a proxy may take to open a tunnel or, for plain http, to pass on the server's answer; default 15 s. */
  proxySeconds?: number
  /** How long a look-up of a name may take that a proxy resolves as well; default 5 s. */
  lookupSeconds?: number
  /** How long listing a commit's files may take; default 60 s. */
  listSeconds?: number
}

/** Older versions do not support pinned addresses and would resolve names again. */
const minVersion = [2, 37] as const
/** Allowance of a single file beyond the cap, for git's own data. */
const slackBytes = 16 * MiB

/** Fetches with the real `git`, as the application's user; it reaches only the checked server. */
export function gitCli(options: GitCliOptions = {}): Git {
  const { git = 'git', scratch = tmpdir(), resolve = systemResolve, listSeconds = 60 } = options
  const { handshakeSeconds = 15, proxySeconds = 15, lookupSeconds = 5 } = options
  const { caBundle: currentBundle = async () => null, proxies = noProxies, warn = () => {} } = options
  const contexts = trustContexts()
  const ready = prepare(git, scratch)
  ready.catch(ignoreError('reported to the caller that fetches'))

  return {
    async fetch(request, onProgress, cancelSignal) {
      await ready
      const commit = checkedCommit(request.commit)
      const folder = openFolder(request)
      const end = new AbortController()
      const signal = AbortSignal.any([cancelSignal, end.signal])
      const timeout = new Error(`Fetching the commit took over ${request.timeoutSeconds} s.`)
      const timer = setTimeout(() => end.abort(timeout), request.timeoutSeconds * 1000)
      let repository: string | null = null
      let unwatch = () => {}
      try {
        const caBundle = await currentBundle()
        const trust = await contexts.of(caBundle)
        const limits = { handshakeSeconds, proxySeconds, lookupSeconds }
        const server = await findRepository(request, { resolve, proxies, trust, ...limits }, signal)
        repository = await makeRepository(scratch, gitConfig(server, caBundle, request.timeoutSeconds), request.owner)
        unwatch = watchSize(repository, request.maxBytes, error => end.abort(error))
        const scope: GitScope = {
          git,
          repository,
          owner: request.owner,
          folder: folder.descriptor,
          fileBytes: request.maxBytes + slackBytes,
          credential: credentialText(server),
          proxyCredential: proxyCredentialText(server),
          scrub: scrubber(request.token),
          signal,
        }
        onProgress(`Fetching ${commit.slice(0, 12)} of ${request.branch} from ${server.host}`)
        await bringCommit(scope, server, { branch: request.branch, commit }, onProgress)
        return await placeCommit(
          { ...scope, listSeconds, credential: null, proxyCredential: null },
          commit,
          request.maxBytes,
          onProgress,
        )
      } catch (error) {
        folder.clear()
        if (error instanceof ProxyFailed)
          warn({ proxy: error.proxy, because: error.because }, 'fetches: their proxy failed')
        throw error
      } finally {
        clearTimeout(timer)
        unwatch()
        folder.close()
        if (repository) await removeRepository(repository)
      }
    },
  }
}

async function prepare(git: string, scratch: string): Promise<void> {
  await removeAbandoned(scratch)
  const { stdout } = await runProcess(git, ['version'], { env: systemEnvironment })
  const [major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(stdout)?.slice(1) ?? []).map(Number)
  if (major < minVersion[0] || (major === minVersion[0] && minor < minVersion[1]))
    throw new Error(`Git ${minVersion.join('.')} or later is needed to fetch repositories; this is ${stdout.trim()}.`)
}

function checkedCommit(commit: string): string {
  if (/^[0-9a-f]{40}$/.test(commit) && !/^0+$/.test(commit)) return commit
  throw new FetchRefused('INVALID_BRANCH', 'The push names no commit.')
}

/** The folder must belong to the application already: otherwise a link further up could lead root to another one's. */
function openFolder({ folder: path, owner }: FetchRequest): Tree {
  const folder = new Tree(path)
  const problem =
    owner && process.getuid?.() === 0 && folder.root.uid !== owner.uid
      ? `does not belong to user ${owner.uid}`
      : folder.list().length === 0
        ? null
        : 'is not empty'
  if (problem === null) return folder
  folder.close()
  throw new Error(`The folder to fetch into ${problem}.`)
}

/** Removes the token from a text, in every encoding. */
function scrubber(token: string | null): (text: string) => string {
  if (!token) return text => text
  const forms = [token, encodeURIComponent(token), Buffer.from(token).toString('base64')]
  return text => forms.reduce((clean, form) => clean.replaceAll(form, '***'), text)
}
