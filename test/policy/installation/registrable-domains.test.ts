import test from 'ava'
import { registrableDomain, settingsWithinSite } from '../../../policy/installation/registrable-domains.ts'

const domains: [string, string | null][] = [
  ['api.example.com', 'example.com'],
  ['Example.COM.', 'example.com'],
  ['a.b.apps.example.com', 'example.com'],
  ['api.example.co.uk', 'example.co.uk'],
  ['api.example.com.br', 'example.com.br'],
  ['berth.example.de', 'example.de'],
  ['localhost', null],
  ['apps.localhost', null],
  ['127.0.0.1', null],
  ['[::1]', null],
]
for (const [host, domain] of domains) test(`${host} is of ${domain}`, t => t.is(registrableDomain(host), domain))

const at = (appsDomain: string, files: string, open: string, base = 'https://api.example.com') =>
  settingsWithinSite({ appsDomain, urls: { base, files: `https://${files}`, public: `https://${open}` } })

test("settings within the API's site are listed, and no others", t => {
  t.deepEqual(at('apps.example.com', 'files.example.com', 'public.example.com'), [
    'APPS_DOMAIN',
    'FILES_URL',
    'PUBLIC_URL',
  ])
  t.deepEqual(at('apps.example.net', 'files.example.net', 'public.example.net'), [])
  t.deepEqual(at('example-apps.com', 'files.example.com:8443', 'p.example.org'), ['FILES_URL'])
  t.deepEqual(at('apps.localhost', '127.0.0.1', '127.0.0.1', 'http://127.0.0.1:4000'), [])
})
