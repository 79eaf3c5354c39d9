import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import test from 'ava'
import { moveFile, removeFile, writeFile as writeAppFile } from '../../activities/app-files/changes.ts'
import { folderMailer } from '../../activities/mail/folder.ts'
import { filesystemStore } from '../../activities/objects/filesystem.ts'
import { segmentPath } from '../../activities/objects/meter.ts'
import { Journal } from '../../activities/placement/journal.ts'
import { readManifest, writeManifest } from '../../activities/placement/manifest.ts'
import { growFile } from '../../activities/volumes/ext4-image.ts'
import { folderVolumes } from '../../activities/volumes/folder.ts'
import { loopVolumes } from '../../activities/volumes/loop.ts'
import { openSecrets, saveSecrets } from '../../cli/installation/secrets.ts'
import { MiB } from '../../lib/bytes.ts'
import { syncFolderNow } from '../../lib/folders/sync-folder.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { newId } from '../../policy/ids.ts'
import { testDisk } from '../kit/crash/disk.ts'

const started = testDisk(256)

/** Runs work, then cuts the power: returns the disk as it comes back. */
async function afterCut(work: (folder: string) => Promise<unknown>, before?: (folder: string) => Promise<unknown>) {
  const disk = await started
  const folder = join(disk.folder, newId())
  await mkdir(folder, { mode: 0o711 })
  await before?.(folder)
  await disk.settle()
  await work(folder)
  const copy = await disk.cut()
  return join(await disk.look(copy), folder.slice(disk.folder.length))
}

const text = (path: string) => readFile(path, 'utf8').catch(error => error.code as string)
const body = randomBytes(300_000)

test.serial(
  'the disk of these tests forgets what nobody synced: content, names, and new names of synced files',
  async t => {
    const left = await afterCut(
      async folder => {
        await writeFile(`${folder}/content`, 'new')
        await writeFile(`${folder}/named`, 'new')
        await writeFile(`${folder}/moved.new`, 'new', { flush: true })
        await writeFile(`${folder}/replaced.new`, 'new', { flush: true })
        await rename(`${folder}/moved.new`, `${folder}/moved`)
        await rename(`${folder}/replaced.new`, `${folder}/replaced`)
      },
      async folder => {
        await writeFile(`${folder}/content`, 'old')
        await writeFile(`${folder}/replaced`, 'old')
      },
    )
    t.not(await text(`${left}/content`), 'new')
    t.not(await text(`${left}/named`), 'new')
    t.is(await text(`${left}/moved`), 'ENOENT')
    t.is(await text(`${left}/replaced`), 'old')
  },
)

test.serial('a body survives once its put has answered, also the second one in a folder', async t => {
  const put = (id: string) => async (folder: string) =>
    (await filesystemStore(folder)).put(id, Readable.from([body], { objectMode: false }))
  const first = newId()
  t.true(body.equals(await readFile(join(await afterCut(put(first)), segmentPath(first)))))
  const second = `${first.slice(0, 4)}${newId().slice(4)}`
  const left = await afterCut(put(second), put(first))
  t.true(body.equals(await readFile(join(left, segmentPath(second)))))
})

const volumeOf = async (folder: string) => {
  await mkdir(`${folder}/files/deep`, { recursive: true })
  await mkdir(`${folder}/trash`)
  await writeFile(`${folder}/files/old`, 'old')
  await writeFile(`${folder}/files/deep/old`, 'old')
}

test.serial(
  'a file of an application is written, replaced, moved and removed for good once that has answered',
  async t => {
    const change = (work: (files: { volume: string; hiding: null }) => Promise<unknown>) =>
      afterCut(volume => work({ volume, hiding: null }), volumeOf)
    const bytes = Buffer.from('new')
    t.is(await text(`${await change(files => writeAppFile(files, 'a/b/c', bytes))}/files/a/b/c`), 'new')
    t.is(await text(`${await change(files => writeAppFile(files, 'old', bytes))}/files/old`), 'new')
    const moved = await change(files => moveFile(files, 'deep/old', 'further/new'))
    t.is(await text(`${moved}/files/further/new`), 'old')
    t.is(await text(`${moved}/files/deep/old`), 'ENOENT')
    t.is(await text(`${await change(files => removeFile(files, 'deep/old'))}/files/deep/old`), 'ENOENT')
  },
)

test.serial('the change of a release is recorded before it is made', async t => {
  const left = await afterCut(
    async folder => {
      const release = new Tree(folder)
      const journal = new Journal(release)
      journal.record([['put', 'index.js']])
      journal.close()
      release.close()
    },
    async folder => writeFile(`${folder}/journal`, ''),
  )
  const release = new Tree(left)
  const journal = new Journal(release)
  t.deepEqual(journal.changes, [['put', 'index.js']])
  journal.close()
  release.close()
})

test.serial('a manifest that survives has all its parts', async t => {
  const described = { link: false, size: 1, mtime: 1, ino: 1, mode: 0o644, hash: 'one' }
  const names = Array.from({ length: 3000 }, (_, n) => `file ${n}`)
  const placed = { added: [], modified: [], removed: [] }
  const contentOf = (files: string[]) => ({ folders: new Map(), files: new Map(files.map(name => [name, described])) })
  const left = await afterCut(
    async folder => {
      const releases = new Tree(folder)
      const before = readManifest(releases, releases, 1)!
      writeManifest(releases, 2, placed, { changes: contentOf(['new']), before })
      // The kernel may write the names on its own, long before anyone waits for that.
      syncFolderNow(`${folder}/2`)
      releases.close()
    },
    async folder => {
      for (const release of [1, 2]) await mkdir(`${folder}/${release}`)
      const releases = new Tree(folder)
      writeManifest(releases, 1, placed, { content: contentOf(names) })
      releases.close()
    },
  )
  const releases = new Tree(left)
  const files = readManifest(releases, releases, 2)?.all().files
  t.deepEqual([...(files?.keys() ?? [])], [...names, 'new'].sort())
  releases.close()
})

const mail = {
  id: newId(),
  language: 'en',
  date: new Date('2100-01-01'),
  from: { name: 'Berth', address: 'berth@example.org' },
  to: 'ana@example.org',
  subject: 'A code',
  text: 'It is ABC',
}

test.serial('a mail survives in its folder once it counts as sent, also the first one', async t => {
  const send = async (folder: string) => folderMailer(`${folder}/mail`).send(mail, new AbortController().signal)
  const left = await afterCut(send)
  const name = `2100-01-01T000000.000Z-${mail.id}.eml`
  t.regex(await text(`${left}/mail/${name}`), /It is ABC/)
})

for (const [kind, open] of [
  ['folders', folderVolumes],
  ['loop mounts', loopVolumes],
] as const) {
  test.serial(`${kind}: a volume and its flushed content survive`, async t => {
    const disk = await started
    const root = join(disk.folder, newId())
    await mkdir(root, { mode: 0o711 })
    const volumes = open(root)
    await volumes.ensure('app', 16, 10_001)
    const source = `${volumes.path('app')}/files`
    await mkdir(`${source}/deep`)
    await writeFile(`${source}/deep/index.js`, body)
    await volumes.flush('app')
    const copy = await disk.cut()
    await volumes.unmountAll()
    const again = open(join(await disk.look(copy), root.slice(disk.folder.length)))
    await again.ensure('app', 16, 10_001, 'before')
    t.true(body.equals(await readFile(`${again.path('app')}/files/deep/index.js`)))
    await again.unmountAll()
    await volumes.remove('app')
  })
}

test.serial('a created volume survives before anything was written to it', async t => {
  const left = await afterCut(folder => loopVolumes(folder).ensure('app', 16, 10_001))
  t.is((await stat(`${left}/images/app.ext4`)).size, 16 * 1024 * 1024)
  const disk = await started
  for (const name of await readdir(disk.folder)) await loopVolumes(join(disk.folder, name)).unmountAll()
})

test.serial('the secrets of an installation survive before they are used', async t => {
  const left = await afterCut(async folder => void openSecrets(folder))
  t.regex(await text(`${left}/secrets.json`), /masterKey/)
  const changed = await afterCut(
    async folder => saveSecrets(folder, { ...openSecrets(folder), userId: 'ana' }),
    async folder => void openSecrets(folder),
  )
  t.is(openSecrets(changed).userId, 'ana')
})

test.serial('the file of a volume has its new size before the file system in it is to have that', async t => {
  const left = await afterCut(
    folder => growFile(`${folder}/image`, 64 * MiB),
    folder => writeFile(`${folder}/image`, body),
  )
  t.is((await stat(`${left}/image`)).size, 64 * MiB)
})
