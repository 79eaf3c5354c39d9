import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { findS3Programs } from '../../cli/test/clients/s3-programs.ts'
import { hex, noise } from '../kit/bodies.ts'
import { lay, ownFolder, seen } from '../kit/folders.ts'
import { bucket, testGateway, wires } from '../kit/s3/gateway.ts'
import { programIn } from '../kit/s3/run-program.ts'

const { access } = testGateway()

for (const wire of wires) {
  const place = `s3://${bucket}/${wire}`

  test.serial(`${wire}: s3cmd puts, gets, lists, describes, syncs and deletes`, async t => {
    const { url, region, accessKeyId, secretAccessKey, caFile } = await access(wire)
    const folder = ownFolder(t)
    const { host } = new URL(url)
    const settings = {
      access_key: accessKeyId,
      secret_key: secretAccessKey,
      host_base: host,
      host_bucket: host,
      bucket_location: region,
      use_https: wire === 'https' ? 'True' : 'False',
      ...(caFile && { ca_certs_file: caFile }),
      multipart_chunk_size_mb: '5',
      progress_meter: 'False',
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
    writeFileSync(join(folder, 'settings'), `[default]\n${lines.join('\n')}\n`)
    const { run } = programIn(folder, findS3Programs().s3cmd, {})
    const s3cmd = async (...args: string[]) => (await run('--config', 'settings', ...args)).stdout
    const large = noise(12 * 1024 * 1024)
    lay(join(folder, 'up'), { 'a.txt': 'a', 'deep/ü ö+%41.txt': 'deep' })
    writeFileSync(join(folder, 'large.bin'), large)
    await s3cmd('put', 'large.bin', `${place}/put/large ü.bin`)
    t.regex(await s3cmd('ls', `${place}/put/`), / 12582912 +s3:\/\/private\/https?\/put\/large ü\.bin\n/)
    await s3cmd('get', `${place}/put/large ü.bin`, 'back.bin')
    t.true(readFileSync(join(folder, 'back.bin')).equals(large))
    t.regex(await s3cmd('ls'), /s3:\/\/private\n/)
    t.is((await s3cmd('sync', 'up/', `${place}/sync/`)).match(/^upload: /gm)?.length, 2)
    t.notRegex(await s3cmd('sync', 'up/', `${place}/sync/`), /upload: /)
    await s3cmd(
      'put',
      'up/a.txt',
      `${place}/put/a.txt`,
      '--mime-type',
      'text/css',
      '--add-header',
      'x-amz-meta-of: s3cmd',
    )
    const info = await s3cmd('info', `${place}/put/a.txt`)
    for (const line of [/File size: +1\n/, /MIME type: +text\/css\n/, /x-amz-meta-of: +s3cmd\n/]) t.regex(info, line)
    t.true(info.includes(hex('md5', Buffer.from('a'))), info)
    t.regex(await s3cmd('info', `s3://${bucket}`), /Location:/)
    await s3cmd('cp', `${place}/put/a.txt`, `${place}/put/copy.txt`)
    await s3cmd('modify', '--add-header', 'x-amz-meta-more: yes', `${place}/put/copy.txt`)
    t.regex(await s3cmd('info', `${place}/put/copy.txt`), /x-amz-meta-more: +yes\n/)
    mkdirSync(join(folder, 'down'))
    await s3cmd('get', '--recursive', `${place}/sync/`, 'down')
    t.deepEqual(Object.keys(seen(join(folder, 'down'))), Object.keys(seen(join(folder, 'up'))))
    rmSync(join(folder, 'up/deep'), { recursive: true })
    t.regex(await s3cmd('sync', '--delete-removed', 'up/', `${place}/sync/`), /delete: .*ü ö\+%41\.txt/)
    await s3cmd('del', `${place}/put/a.txt`)
    await s3cmd('del', '--recursive', '--force', `${place}/`)
    t.is(await s3cmd('ls', '--recursive', `${place}/`), '')
  })
}
