import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { findS3Programs } from '../../cli/test/clients/s3-programs.ts'
import { noise } from '../kit/bodies.ts'
import { lay, ownFolder } from '../kit/folders.ts'
import { bucket, type S3Access, testGateway, wires } from '../kit/s3/gateway.ts'
import { plainRequest } from '../kit/s3/plain-request.ts'
import { amazonEnvironment, programIn } from '../kit/s3/run-program.ts'

const { access } = testGateway()

function cliIn(t: ExecutionContext, given: S3Access) {
  const folder = ownFolder(t)
  const { run } = programIn(folder, findS3Programs().aws, amazonEnvironment(given))
  const aws = async (...args: string[]) => (await run(...args)).stdout
  return { folder, aws }
}

for (const wire of wires) {
  const place = `s3://${bucket}/${wire}`

  test.serial(`${wire}: the AWS CLI copies files of one and of several parts`, async t => {
    const given = await access(wire)
    const { folder, aws } = cliIn(t, given)
    const large = noise(20 * 1024 * 1024)
    lay(folder, { 'a note ü.txt': 'a note' })
    writeFileSync(join(folder, 'large.bin'), large)
    await aws('s3', 'cp', '--no-progress', 'a note ü.txt', `${place}/cp/`)
    await aws('s3', 'cp', '--no-progress', 'large.bin', `${place}/cp/large.bin`)
    const listed = await aws('s3', 'ls', `${place}/cp/`)
    t.regex(listed, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +6 a note ü\.txt\n.* 20971520 large\.bin\n$/)
    await aws('s3', 'cp', '--no-progress', `${place}/cp/large.bin`, 'back.bin')
    t.true(readFileSync(join(folder, 'back.bin')).equals(large))
    // For regions of Amazon that it knows from before 2014 the CLI would sign with version 2.
    const address = await aws('s3', 'presign', '--region', 'auto', '--expires-in', '60', `${place}/cp/a note ü.txt`)
    const answer = await plainRequest(address.trim(), given)
    t.is(answer.status, 200, String(answer.body))
    t.is(String(answer.body), 'a note')
    t.is(answer.headers['content-type'], 'text/plain')
    // Copied by the gateway, in parts.
    await aws('s3', 'mv', '--no-progress', `${place}/cp/large.bin`, `${place}/moved.bin`)
    const moved = await aws('s3', 'ls', '--recursive', '--summarize', `${place}/moved`)
    t.regex(moved, /20971520 https?\/moved\.bin\n[\s\S]*Total Objects: 1\n +Total Size: 20971520/)
    t.notRegex(await aws('s3', 'ls', `${place}/cp/`), /large/)
  })

  test.serial(`${wire}: the AWS CLI syncs a folder up and down, and transfers nothing a second time`, async t => {
    const { folder, aws } = cliIn(t, await access(wire))
    const contents = {
      'a.txt': 'a',
      'empty.txt': '',
      'deep/er/ü ö.txt': 'deep',
      'deep/a+b&c=d.txt': 'plus',
      '100%.txt': '%',
    }
    lay(join(folder, 'up'), contents)
    // A file that is newer than its object would be sent again.
    const earlier = new Date(Date.now() - 3_600_000)
    for (const name of Object.keys(contents)) utimesSync(join(folder, 'up', name), earlier, earlier)
    const sync = (from: string, to: string, ...more: string[]) => aws('s3', 'sync', '--no-progress', from, to, ...more)
    t.is((await sync('up', `${place}/sync`)).match(/^upload: /gm)?.length, 5)
    t.is(await sync('up', `${place}/sync`), '')
    mkdirSync(join(folder, 'down'))
    t.is((await sync(`${place}/sync`, 'down')).match(/^download: /gm)?.length, 5)
    execFileSync('diff', ['-r', 'up', 'down'], { cwd: folder, timeout: 10_000 })
    t.is(await sync(`${place}/sync`, 'down'), '')
    // The CLI does not delete empty folders.
    for (const name of readdirSync(join(folder, 'up/deep'), { recursive: true, encoding: 'utf8' }))
      if (name.endsWith('.txt')) rmSync(join(folder, 'up/deep', name))
    appendFileSync(join(folder, 'up/a.txt'), 'more')
    const changes = (await sync('up', `${place}/sync`, '--delete')).trim().split('\n')
    t.deepEqual(changes.map(line => line.split(' ')[0]).sort(), ['delete:', 'delete:', 'upload:'])
    t.regex(await sync(`${place}/sync`, 'down', '--delete'), /download: .*a\.txt/)
    execFileSync('diff', ['-r', 'up', 'down'], { cwd: folder, timeout: 10_000 })
    t.is((await aws('s3', 'rm', '--recursive', `${place}/sync`)).match(/^delete: /gm)?.length, 3)
    t.is(
      await aws('s3api', 'list-objects-v2', '--bucket', bucket, '--prefix', `${wire}/sync/`, '--query', 'Contents'),
      'null\n',
    )
  })

  test.serial(`${wire}: the AWS CLI lists and aborts uploads in progress`, async t => {
    const { aws } = cliIn(t, await access(wire))
    const api = async (command: string, ...args: string[]) => {
      const text = await aws('s3api', command, '--bucket', bucket, '--output', 'json', ...args)
      return text === '' ? {} : JSON.parse(text)
    }
    const Key = `${wire}/uploads/ü.bin`
    const { UploadId } = await api('create-multipart-upload', '--key', Key)
    const prefix = ['--prefix', `${wire}/uploads/`]
    const { Uploads } = await api('list-multipart-uploads', ...prefix)
    t.like(Uploads, [{ UploadId, Key }])
    await api('abort-multipart-upload', '--key', Key, '--upload-id', UploadId)
    t.is((await api('list-multipart-uploads', ...prefix)).Uploads, undefined)
  })
}
