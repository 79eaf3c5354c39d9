import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { findS3Programs } from '../../cli/test/clients/s3-programs.ts'
import { noise } from '../kit/bodies.ts'
import { lay, ownFolder, seen } from '../kit/folders.ts'
import { bucket, type S3Access, testGateway, wires } from '../kit/s3/gateway.ts'
import { programIn } from '../kit/s3/run-program.ts'

const { access } = testGateway()

function rcloneIn(t: ExecutionContext, { url, region, accessKeyId, secretAccessKey, caFile }: S3Access) {
  const folder = ownFolder(t)
  const remote = { TYPE: 's3', PROVIDER: 'Other', ENDPOINT: url, REGION: region, ACCESS_KEY_ID: accessKeyId }
  const secret = { SECRET_ACCESS_KEY: secretAccessKey, CHUNK_SIZE: '5Mi', UPLOAD_CUTOFF: '5Mi' }
  const settings = Object.entries({ ...remote, ...secret }).map(([name, value]) => [
    `RCLONE_CONFIG_BERTH_${name}`,
    value,
  ])
  const own = { ...Object.fromEntries(settings), RCLONE_CONFIG: '/dev/null', ...(caFile && { RCLONE_CA_CERT: caFile }) }
  return { folder, rclone: programIn(folder, findS3Programs().rclone, own).run }
}

for (const wire of wires) {
  const place = `berth:${bucket}/${wire}`

  test.serial(`${wire}: rclone syncs a folder with times, and transfers nothing a second time`, async t => {
    const { folder, rclone } = rcloneIn(t, await access(wire))
    const up = join(folder, 'up')
    lay(up, { 'a.txt': 'a', 'empty.txt': '', 'deep/er/ü ö.txt': 'deep', 'deep/a+b&c=d%41.txt': 'plus' })
    const large = noise(12 * 1024 * 1024)
    writeFileSync(join(up, 'large.bin'), large)
    const time = new Date('2021-02-03T04:05:06.789Z')
    for (const name of ['a.txt', 'large.bin']) utimesSync(join(up, name), time, time)
    await rclone('sync', 'up', `${place}/sync`)
    const again = await rclone('sync', '-v', 'up', `${place}/sync`)
    t.regex(again.stderr, /There was nothing to transfer/)
    t.regex((await rclone('check', 'up', `${place}/sync`)).stderr, /0 differences found[\s\S]* 5 matching files/)
    const listed = async () => {
      const entries = JSON.parse((await rclone('lsjson', '-R', '--files-only', '--hash', `${place}/sync`)).stdout)
      return new Map(entries.map((entry: { Path: string }) => [entry.Path, entry])) as Map<
        string,
        Record<string, unknown>
      >
    }
    const first = await listed()
    for (const [name, Size] of [
      ['a.txt', 1],
      ['large.bin', large.length],
    ] as const) {
      t.is(first.get(name)?.Size, Size)
      t.is(new Date(String(first.get(name)?.ModTime)).getTime(), time.getTime())
    }
    // Only the time has changed: the object is copied onto itself, with other metadata.
    const later = new Date('2022-02-03T04:05:06.789Z')
    utimesSync(join(up, 'a.txt'), later, later)
    await rclone('sync', 'up', `${place}/sync`)
    const second = await listed()
    t.is(new Date(String(second.get('a.txt')?.ModTime)).getTime(), later.getTime())
    mkdirSync(join(folder, 'down'))
    await rclone('sync', `${place}/sync`, 'down')
    t.deepEqual(seen(join(folder, 'down')), seen(up))
    t.true(readFileSync(join(folder, 'down/large.bin')).equals(large))
  })

  test.serial(
    `${wire}: rclone copies, moves and deletes objects within the gateway, with metadata in any alphabet`,
    async t => {
      const { folder, rclone } = rcloneIn(t, await access(wire))
      lay(folder, { 'a.txt': 'a', 'b.txt': 'b' })
      await rclone('copyto', '-M', '--metadata-set', 'title=Grüße à 東京', 'a.txt', `${place}/move/a.txt`)
      const [{ Metadata }] = JSON.parse((await rclone('lsjson', '-M', `${place}/move/a.txt`)).stdout)
      // As S3 returns what is not ASCII.
      t.is(Metadata.title, `=?UTF-8?B?${Buffer.from('Grüße à 東京').toString('base64')}?=`)
      await rclone('copyto', 'b.txt', `${place}/move/ü/b.txt`)
      await rclone('moveto', `${place}/move/ü`, `${place}/moved/ü`)
      t.is((await rclone('cat', `${place}/moved/ü/b.txt`)).stdout, 'b')
      const files = async () => (await rclone('lsf', '-R', '--files-only', place)).stdout.trim().split('\n').sort()
      t.deepEqual(
        (await files()).filter(name => name.startsWith('move')),
        ['move/a.txt', 'moved/ü/b.txt'],
      )
      await rclone('purge', `${place}/move`)
      await rclone('deletefile', `${place}/moved/ü/b.txt`)
      t.deepEqual(
        (await files()).filter(name => name.startsWith('move')),
        [],
      )
      t.regex((await rclone('lsd', 'berth:')).stdout, / private\n/)
    },
  )
}
