/**
 * Categories of bots by a word in their agent, without regard to case; the first that fits counts. An agent can claim to be any of them:
 * the categories describe what bots say about themselves. A bot without a row is `Unverified`.
 */
const categories: readonly (readonly [category: string, words: readonly string[]])[] = [
  [
    'AI Crawler',
    [
      'gptbot',
      'claudebot',
      'anthropic-ai',
      'ccbot',
      'google-extended',
      'google-cloudvertexbot',
      'meta-externalagent',
      'bytespider',
      'amazonbot',
      'applebot-extended',
      'cohere-ai',
      'diffbot',
      'pangubot',
    ],
  ],
  ['AI Search', ['oai-searchbot', 'perplexitybot', 'claude-searchbot', 'youbot', 'duckassistbot']],
  ['AI Assistant', ['chatgpt-user', 'claude-user', 'perplexity-user', 'meta-externalfetcher', 'mistralai-user']],
  ['Advertising', ['adsbot-google', 'mediapartners-google', 'adidxbot', 'bingads', 'amzn-']],
  [
    'Page Preview',
    [
      'facebookexternalhit',
      'facebot',
      'twitterbot',
      'linkedinbot',
      'slackbot',
      'slack-imgproxy',
      'discordbot',
      'telegrambot',
      'whatsapp',
      'skypeuripreview',
      'pinterestbot',
      'redditbot',
      'embedly',
      'mastodon',
    ],
  ],
  [
    'Search Engine',
    [
      'googlebot',
      'google-inspectiontool',
      'googleother',
      'bingbot',
      'bingpreview',
      'duckduckbot',
      'yandex',
      'baiduspider',
      'applebot',
      'sogou',
      'seznambot',
      'naverbot',
      'yeti/',
      'qwantbot',
      'petalbot',
      'slurp',
      'mojeekbot',
      'coccocbot',
    ],
  ],
  [
    'SEO',
    [
      'ahrefsbot',
      'semrushbot',
      'mj12bot',
      'dotbot',
      'rogerbot',
      'screaming frog',
      'serpstatbot',
      'dataforseobot',
      'barkrowler',
    ],
  ],
  [
    'Monitoring',
    [
      'uptimerobot',
      'pingdom',
      'statuscake',
      'site24x7',
      'datadog',
      'newrelic',
      'betterstack',
      'better uptime',
      'hetrixtools',
      'checkly',
      'updown.io',
      'uptime-kuma',
      'chrome-lighthouse',
      'gtmetrix',
    ],
  ],
  ['Security', ['censysinspect', 'expanse', 'shodan', 'zgrab', 'nuclei', 'qualys', 'nessus', 'internet-measurement']],
  ['Archiver', ['archive.org_bot', 'ia_archiver', 'heritrix', 'arquivo-web-crawler']],
  ['Feed Reader', ['feedly', 'feedfetcher', 'inoreader', 'newsblur', 'tiny tiny rss', 'freshrss', 'miniflux']],
  ['Webhook', ['github-hookshot', 'stripe/', 'gitlab/', 'twilioproxy']],
]

/** The category that an agent claims for itself; null when no row fits. */
export function botCategory(agent: string): string | null {
  const text = agent.toLowerCase()
  return categories.find(([, words]) => words.some(word => text.includes(word)))?.[0] ?? null
}
