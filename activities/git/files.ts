import { statfs } from 'node:fs/promises'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { blockBytes } from '../../lib/bytes.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { nameLimits } from '../../policy/archives/archive-names.ts'
import { GitTree, type TreeEntry } from '../../policy/archives/git-tree.ts'
import { failureOf } from './commit.ts'
import { FetchRefused } from './port.ts'
import { folderDescriptor, type GitScope, runGit } from './process.ts'

/** A path, with space for its mode, type, id and size. */
const maxLineBytes = nameLimits.pathBytes + 100

/** `listSeconds`: how long listing a commit's files may take. */
type ListScope = GitScope & { listSeconds: number }

/** Reads a commit's tree, selects its files, and has git write them. Nothing is written before everything is checked. */
export async function placeCommit(
  scope: ListScope,
  commit: string,
  maxBytes: number,
  onLine: (line: string) => void,
): Promise<{ files: number; bytes: number }> {
  const tree = await readTree(scope, commit, maxBytes)
  for (const path of tree.submodules) onLine(`The submodule ${path} is left out.`)
  const outside = tree.dropLinksOutside(await readTargets(scope, tree.links))
  for (const path of outside.slice(0, 10)) onLine(`The link ${path} leads outside and is left out.`)
  const index = tree.entries.map(({ mode, id, path }) => `${mode} ${id} 0\t${path}\0`).join('')
  const { stderr } = await succeeded(runGit(scope, ['update-index', '-z', '--index-info'], { input: index }))
  if (stderr.includes('Ignoring path'))
    throw new FetchRefused('CLONE_FAILED', 'The commit contains a name that git itself refuses to write, such as .GIT.')
  const free = await freeSpace(scope.folder)
  const checkout = await runGit(scope, [
    'checkout-index',
    '--all',
    '--quiet',
    `--prefix=/proc/self/fd/${folderDescriptor}/`,
  ])
  // Git does not say why it could not write.
  if (
    checkout.code !== 0 &&
    (tree.bytes + tree.entries.length * blockBytes > free.bytes || (await freeSpace(scope.folder)).names < 2)
  )
    throw new NoSpaceLeft('The application has no disk space left for the files of the commit.')
  if (checkout.code !== 0) throw failureOf(checkout)
  return { files: tree.entries.length, bytes: tree.bytes }
}

async function freeSpace(folder: number): Promise<{ bytes: number; names: number }> {
  const { bavail, bsize, ffree } = await statfs(`/proc/self/fd/${folder}`)
  return { bytes: bavail * bsize, names: ffree }
}

/** A commit of nested empty folders, each in itself many times, has an endless list that prints nothing: only its time ends it. */
async function readTree(scope: ListScope, commit: string, maxBytes: number): Promise<GitTree> {
  const tree = new GitTree(maxBytes)
  const onOutput = eachEntry(entry => {
    const fault = tree.add(entry)
    if (fault) throw new FetchRefused(fault.code, fault.message)
  })
  const signal = deadlineSignal(scope.listSeconds * 1000, scope.signal)
  const args = ['ls-tree', '-r', '-z', '-l', '--full-tree', commit]
  await succeeded(runGit({ ...scope, signal }, args, { onOutput })).catch(error => {
    if (error !== signal.reason || scope.signal.aborted) throw error
    throw new FetchRefused('REPOSITORY_TOO_LARGE', `Listing the commit's files took over ${scope.listSeconds} s.`)
  })
  return tree
}

/** Passes on each entry of a list whose lines end with NUL. Throws CLONE_FAILED for a line without end: git prints names of any length. */
function eachEntry(onEntry: (entry: TreeEntry) => void): (piece: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return piece => {
    let start = 0
    for (let end = piece.indexOf(0); end >= 0; end = piece.indexOf(0, start)) {
      const line = piece.subarray(start, end)
      onEntry(entryOf(rest.length === 0 ? line : Buffer.concat([rest, line])))
      rest = Buffer.alloc(0)
      start = end + 1
    }
    rest = Buffer.concat([rest, piece.subarray(start)])
    if (rest.length > maxLineBytes)
      throw new FetchRefused('CLONE_FAILED', `The commit contains a name over ${nameLimits.pathBytes} bytes.`)
  }
}

/** Parses `<mode> <type> <id> <size>\t<path>`. Names must be UTF-8: the platform could not show and find others again. */
function entryOf(line: Buffer): TreeEntry {
  const tab = line.indexOf(9)
  const [mode = '', , id = '', size = ''] = line.subarray(0, tab).toString('latin1').split(/ +/)
  try {
    return { mode, id, bytes: Number(size) || 0, path: utf8.decode(line.subarray(tab + 1)) }
  } catch {
    throw new FetchRefused('CLONE_FAILED', 'The commit contains a name that is not UTF-8.')
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Targets of links, in their order; contents too long for a target are not read. */
async function readTargets(scope: GitScope, links: readonly TreeEntry[]): Promise<string[]> {
  if (links.length === 0) return []
  const input = links.map(({ id, bytes }) => (bytes > 4096 ? 'none' : id)).join('\n')
  const { output } = await succeeded(runGit(scope, ['cat-file', '--batch'], { input: `${input}\n` }))
  let at = 0
  return links.map(() => {
    const head = output.indexOf(10, at)
    const size = /^[0-9a-f]+ blob (\d+)$/.exec(output.subarray(at, head).toString('latin1'))?.[1]
    at = head + 1
    if (size === undefined) return ''
    const target = output.subarray(at, at + Number(size)).toString()
    at += Number(size) + 1
    return target
  })
}

async function succeeded<T extends Awaited<ReturnType<typeof runGit>>>(running: Promise<T>): Promise<T> {
  const end = await running
  if (end.code !== 0) throw failureOf(end)
  return end
}
