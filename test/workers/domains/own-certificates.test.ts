import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { issueCertificate, makeAuthority } from '../../../activities/certificates/authority.ts'
import { ownCertificates } from '../../../workers/domains/own-certificates.ts'
import { ownFolder } from '../../kit/folders.ts'

const days = (count: number) => new Date(Date.now() + count * 86_400_000)

function scene(t: ExecutionContext) {
  const folder = ownFolder(t)
  const files = { certificate: join(folder, 'chain.pem'), key: join(folder, 'key.pem') }
  const reports: string[] = []
  let clock = 0
  const log = { error: ({ why }: { why: string }, words: string) => void reports.push(`${words}: ${why}`) }
  const own = ownCertificates(files, log as never, () => clock)
  return {
    ...{ files, own, reports },
    later: () => {
      clock += 60_000
    },
    async write(begins = days(0)) {
      const request = { kind: 'server', commonName: 'a.test', addresses: [], days: 30 } as const
      const issued = await issueCertificate(await makeAuthority(days(-100)), { ...request, names: ['a.test'] }, begins)
      await writeFile(files.certificate, issued.certificate)
      await writeFile(files.key, issued.privateKey)
    },
    names: async () => (await own())?.map(({ hostname }) => hostname),
  }
}

test('files that cannot be read yet are not known, which is not none; what was read last stays', async t => {
  const { own, write, later, names, files, reports } = scene(t)
  t.is(await own(), null)
  t.is(await own(), null)
  t.is(reports.length, 1, 'reported once')
  await write()
  later()
  const both = await Promise.all([names(), names()])
  t.deepEqual(both, [['a.test'], ['a.test']], 'a caller during a read gets it')
  await writeFile(files.key, 'half')
  later()
  t.deepEqual(await names(), ['a.test'])
  t.is(reports.length, 2)
  t.deepEqual(await ownCertificates(null, { error: () => {} } as never)(), [], 'without files there are none')
})

test('a certificate that has ended is reported, and served', async t => {
  const { write, names, reports } = scene(t)
  await write(days(-40))
  t.deepEqual(await names(), ['a.test'])
  t.regex(reports.join(), /^EDGE_CERTIFICATE is served, but clients refuse it: The certificate expired at /)
})
