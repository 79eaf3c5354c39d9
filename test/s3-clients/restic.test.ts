import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { findS3Programs } from '../../cli/test/clients/s3-programs.ts'
import { noise } from '../kit/bodies.ts'
import { lay, ownFolder, seen } from '../kit/folders.ts'
import { bucket, testGateway, wires } from '../kit/s3/gateway.ts'
import { programIn } from '../kit/s3/run-program.ts'

const { access } = testGateway()

for (const wire of wires)
  test.serial(
    `${wire}: restic backs up a folder twice, verifies every byte, forgets one snapshot and restores the other`,
    async t => {
      const { url, region, accessKeyId, secretAccessKey, caFile } = await access(wire)
      const folder = ownFolder(t)
      const authority = caFile === undefined ? [] : ['--cacert', caFile]
      const restic = programIn(folder, [...findS3Programs().restic, '-o', `s3.region=${region}`, ...authority], {
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
        RESTIC_REPOSITORY: `s3:${url}/${bucket}/${wire}/restic`,
        RESTIC_PASSWORD: 'for a test',
      })
      lay(join(folder, 'data'), { 'a.txt': 'a', 'empty.txt': '', 'deep/er/ü ö.txt': 'deep' })
      writeFileSync(join(folder, 'data/large.bin'), noise(6 * 1024 * 1024), { mode: 0o644 })
      await restic.run('init')
      await restic.run('backup', 'data')
      appendFileSync(join(folder, 'data/a.txt'), ' and more')
      t.regex((await restic.run('backup', 'data')).stdout, /Files: +0 new, +1 changed, +3 unmodified/)
      t.regex((await restic.run('check', '--read-data')).stdout, /no errors were found/)
      t.regex((await restic.run('forget', '--keep-last', '1', '--prune')).stdout, /remove 1 snapshots/)
      await restic.run('restore', 'latest', '--target', 'restored')
      t.deepEqual(seen(join(folder, 'restored/data')), seen(join(folder, 'data')))
      const snapshots = JSON.parse((await restic.run('snapshots', '--json')).stdout)
      t.is(snapshots.length, 1)
    },
  )
