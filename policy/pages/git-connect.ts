import type { PageText } from './page-text.ts'

type Texts = Record<
  'title' | 'intro' | 'account' | 'login' | 'owners' | 'session' | 'connect' | 'connected' | 'other' | 'over',
  string
>

/** The last step of connecting an account to the git provider. */
export const gitConnectText: PageText<Texts> = {
  'pt-BR': {
    title: 'Conectar o provedor git?',
    intro:
      'Quem usa esta conta poderá vincular os repositórios abaixo e ler o conteúdo deles. Continue somente se a conta é sua e se foi você quem começou isto.',
    account: 'Conta nesta plataforma',
    login: 'Você no provedor git',
    owners: 'Repositórios de',
    session: 'Token de sessão desta conta',
    connect: 'Conectar',
    connected: 'Conectado. Você pode fechar esta página.',
    other: 'Esta sessão é de outra conta. Nada foi conectado.',
    over: 'Isto não começou neste navegador ou começou há tempo demais. Nada foi conectado; comece de novo em /git/connect.',
  },
  'en-US': {
    title: 'Connect the git provider?',
    intro:
      'Everyone who uses this account will be able to link the repositories below and read their contents. Continue only if the account is yours and you started this yourself.',
    account: 'Account on this platform',
    login: 'You at the git provider',
    owners: 'Repositories of',
    session: 'Session token of this account',
    connect: 'Connect',
    connected: 'Connected. You can close this page.',
    other: 'This session belongs to another account. Nothing was connected.',
    over: 'This was not started in this browser, or was started too long ago. Nothing was connected. Start again at /git/connect.',
  },
  'es-ES': {
    title: '¿Conectar el proveedor de git?',
    intro:
      'Quien use esta cuenta podrá vincular los repositorios de abajo y leer su contenido. Continúa solo si la cuenta es tuya y si has empezado esto tú.',
    account: 'Cuenta en esta plataforma',
    login: 'Tú en el proveedor de git',
    owners: 'Repositorios de',
    session: 'Token de sesión de esta cuenta',
    connect: 'Conectar',
    connected: 'Conectado. Puedes cerrar esta página.',
    other: 'Esta sesión es de otra cuenta. No se ha conectado nada.',
    over: 'Esto no empezó en este navegador o empezó hace demasiado tiempo. No se ha conectado nada; empieza de nuevo en /git/connect.',
  },
  'zh-CN': {
    title: '要连接 git 提供商吗？',
    intro: '使用该账户的人将可以关联下列仓库并读取其内容。仅当该账户属于您，并且是您本人开始此操作时，才继续。',
    account: '本平台上的账户',
    login: '您在 git 提供商的身份',
    owners: '仓库所属',
    session: '该账户的会话令牌',
    connect: '连接',
    connected: '已连接。您可以关闭此页面。',
    other: '该会话属于另一个账户，未连接任何内容。',
    over: '此操作不是在此浏览器中开始的，或开始得太久。未连接任何内容，请在 /git/connect 重新开始。',
  },
  'ja-JP': {
    title: 'git プロバイダーを接続しますか？',
    intro:
      'このアカウントを使う人は、下記のリポジトリをリンクし、その内容を読めるようになります。アカウントがご自身のもので、ご自身がこの操作を始めた場合にのみ続けてください。',
    account: 'このプラットフォームのアカウント',
    login: 'git プロバイダーでのあなた',
    owners: 'リポジトリの所有者',
    session: 'このアカウントのセッショントークン',
    connect: '接続',
    connected: '接続しました。このページを閉じてかまいません。',
    other: 'このセッションは別のアカウントのものです。何も接続されていません。',
    over: 'このブラウザで始めた操作ではないか、時間が経ちすぎています。何も接続されていません。/git/connect からやり直してください。',
  },
  'fr-FR': {
    title: 'Connecter le fournisseur git ?',
    intro:
      "Quiconque utilise ce compte pourra lier les dépôts ci-dessous et lire leur contenu. Continuez seulement si le compte est le vôtre et si c'est vous qui avez commencé.",
    account: 'Compte sur cette plateforme',
    login: 'Vous, chez le fournisseur git',
    owners: 'Dépôts de',
    session: 'Jeton de session de ce compte',
    connect: 'Connecter',
    connected: 'Connecté. Vous pouvez fermer cette page.',
    other: "Cette session est celle d'un autre compte. Rien n'a été connecté.",
    over: "Cela n'a pas commencé dans ce navigateur, ou il y a trop longtemps. Rien n'a été connecté ; recommencez sur /git/connect.",
  },
  'de-DE': {
    title: 'Git-Anbieter verbinden?',
    intro:
      'Wer dieses Konto benutzt, wird die Repositorys unten verknüpfen und ihren Inhalt lesen können. Fahren Sie nur fort, wenn das Konto Ihres ist und wenn Sie dies selbst begonnen haben.',
    account: 'Konto auf dieser Plattform',
    login: 'Sie beim Git-Anbieter',
    owners: 'Repositorys von',
    session: 'Sitzungstoken dieses Kontos',
    connect: 'Verbinden',
    connected: 'Verbunden. Sie können diese Seite schließen.',
    other: 'Diese Sitzung gehört zu einem anderen Konto. Es wurde nichts verbunden.',
    over: 'Dies hat nicht in diesem Browser begonnen oder ist zu lange her. Es wurde nichts verbunden; beginnen Sie neu unter /git/connect.',
  },
  'it-IT': {
    title: 'Collegare il fornitore git?',
    intro:
      "Chi usa questo account potrà collegare i repository qui sotto e leggerne il contenuto. Prosegui solo se l'account è tuo e se hai iniziato tu questa operazione.",
    account: 'Account su questa piattaforma',
    login: 'Tu presso il fornitore git',
    owners: 'Repository di',
    session: 'Token di sessione di questo account',
    connect: 'Collega',
    connected: 'Collegato. Puoi chiudere questa pagina.',
    other: 'Questa sessione è di un altro account. Non è stato collegato nulla.',
    over: 'Questa operazione non è iniziata in questo browser, o è iniziata da troppo tempo. Non è stato collegato nulla; ricomincia da /git/connect.',
  },
}
