/* init, and what a script of a test needs beside the shell: a program of many names. */
#include <sys/param.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/sysctl.h>
#include <sys/sockio.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <net/if.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void mount_one(const char *type, const char *on, int flags)
{
	struct iovec iov[6] = {
		{ "fstype", 7 }, { (void *)(uintptr_t)type, strlen(type) + 1 },
		{ "fspath", 7 }, { (void *)(uintptr_t)on, strlen(on) + 1 },
		{ "noro", 5 }, { 0, 0 },
	};
	if (nmount(iov, flags ? 6 : 4, flags) != 0)
		warn("mount %s", on);
}

static int be_init(void)
{
	int status = 0;
	mount_one("devfs", "/dev", 0);
	mount_one("ufs", "/", MNT_UPDATE);
	setsid();
	int fd = open("/dev/console", O_RDWR);
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	ioctl(0, TIOCSCTTY, 0);
	printf("\n=== begin\n"); fflush(stdout);
	setenv("PATH", "/bin", 1);
	setenv("HOME", "/", 1);
	setenv("TMPDIR", "/tmp", 1);
	pid_t child = fork();
	if (child == 0) {
		setpgid(0, 0);
		execl("/bin/sh", "sh", "/script", (char *)0);
		err(127, "/bin/sh");
	}
	pid_t ended;
	while ((ended = wait(&status)) != child)
		;
	printf("\n=== end %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)); fflush(stdout);
	sleep(1);
	reboot(RB_POWEROFF);
	return 1;
}

/* sysctl NAME[=NUMBER]: an integer, or a text. */
static int do_sysctl(char *name)
{
	char *value = strchr(name, '=');
	if (value) {
		*value++ = 0;
		int number = atoi(value);
		if (sysctlbyname(name, 0, 0, &number, sizeof(number)) != 0)
			err(1, "%s", name);
		return 0;
	}
	char text[4096];
	size_t length = sizeof(text) - 1;
	if (sysctlbyname(name, text, &length, 0, 0) != 0)
		err(1, "%s", name);
	text[length] = 0;
	if (length == 4)
		printf("%s: %d\n", name, *(int *)(void *)text);
	else
		printf("%s: %s\n", name, text);
	return 0;
}

/* udp send ADDRESS PORT COUNT: one-byte broadcasts. udp count PORT SECONDS: how many arrive. */
static int do_udp(int argc, char **argv)
{
	int s = socket(AF_INET, SOCK_DGRAM, 0), one = 1, sends = argc == 5 && !strcmp(argv[1], "send");
	struct sockaddr_in peer = { .sin_len = sizeof(peer), .sin_family = AF_INET };
	if (!sends && (argc != 4 || strcmp(argv[1], "count") != 0))
		errx(2, "udp send ADDRESS PORT COUNT, or udp count PORT SECONDS");
	peer.sin_port = htons(atoi(argv[sends ? 3 : 2]));
	if (sends) {
		int sent = 0, count = atoi(argv[4]);
		setsockopt(s, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one));
		peer.sin_addr.s_addr = inet_addr(argv[2]);
		for (int i = 0; i < count; i++) {
			sent += sendto(s, "x", 1, 0, (struct sockaddr *)&peer, sizeof(peer)) == 1;
			usleep(1000);
		}
		printf("udp: %d of %d sent\n", sent, count);
		return 0;
	}
	char some[2048];
	int got = 0;
	struct timeval wait = { 0, 100000 };
	time_t end = time(0) + atoi(argv[3]);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (bind(s, (struct sockaddr *)&peer, sizeof(peer)) != 0)
		err(1, "bind");
	while (time(0) < end)
		got += recv(s, some, sizeof(some), 0) >= 0;
	printf("udp: %d received\n", got);
	return 0;
}

/* ifconfig [NAME [create|destroy|up|down|flags|-txcsum|mtu=BYTES|ADDRESS]...] */
static int do_ifconfig(int argc, char **argv)
{
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq request;
	memset(&request, 0, sizeof(request));
	if (argc < 2) {
		struct ifaddrs *list, *one;
		if (getifaddrs(&list) != 0)
			err(1, "getifaddrs");
		for (one = list; one; one = one->ifa_next)
			if (one->ifa_addr && one->ifa_addr->sa_family == AF_LINK)
				printf("%s flags=%x\n", one->ifa_name, one->ifa_flags);
		return 0;
	}
	strlcpy(request.ifr_name, argv[1], sizeof(request.ifr_name));
	for (int i = 2; i < argc; i++) {
		int got;
		if (!strcmp(argv[i], "create")) {
			got = ioctl(s, SIOCIFCREATE, &request);
			if (got == 0)
				printf("%s\n", request.ifr_name);
		} else if (!strcmp(argv[i], "destroy"))
			got = ioctl(s, SIOCIFDESTROY, &request);
		else if (!strcmp(argv[i], "up") || !strcmp(argv[i], "down")) {
			got = ioctl(s, SIOCGIFFLAGS, &request);
			int flags = (request.ifr_flags & 0xffff) | (request.ifr_flagshigh << 16);
			flags = argv[i][0] == 'u' ? flags | IFF_UP : flags & ~IFF_UP;
			request.ifr_flags = flags & 0xffff;
			request.ifr_flagshigh = flags >> 16;
			if (got == 0)
				got = ioctl(s, SIOCSIFFLAGS, &request);
		} else if (!strcmp(argv[i], "flags")) {
			got = ioctl(s, SIOCGIFFLAGS, &request);
			printf("%s flags=%x%04x\n", argv[1], request.ifr_flagshigh & 0xffff, request.ifr_flags & 0xffff);
		} else if (!strcmp(argv[i], "-txcsum")) {
			got = ioctl(s, SIOCGIFCAP, &request);
			request.ifr_reqcap = request.ifr_curcap & ~(IFCAP_TXCSUM | IFCAP_TXCSUM_IPV6);
			if (got == 0)
				got = ioctl(s, SIOCSIFCAP, &request);
		} else if (!strncmp(argv[i], "mtu=", 4)) {
			request.ifr_mtu = atoi(argv[i] + 4);
			got = ioctl(s, SIOCSIFMTU, &request);
		} else {
			struct ifaliasreq alias;
			memset(&alias, 0, sizeof(alias));
			strlcpy(alias.ifra_name, argv[1], sizeof(alias.ifra_name));
			struct sockaddr_in *in = (void *)&alias.ifra_addr, *mask = (void *)&alias.ifra_mask;
			in->sin_len = mask->sin_len = sizeof(*in);
			in->sin_family = mask->sin_family = AF_INET;
			in->sin_addr.s_addr = inet_addr(argv[i]);
			mask->sin_addr.s_addr = htonl(0xffffff00);
			got = ioctl(s, SIOCAIFADDR, &alias);
		}
		if (got != 0)
			err(1, "%s %s", argv[1], argv[i]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char *name = strrchr(argv[0], '/');
	name = name ? name + 1 : argv[0];
	if (getpid() == 1)
		return be_init();
	if (!strcmp(name, "sleep")) {
		usleep(argc > 1 ? (useconds_t)(atof(argv[1]) * 1e6) : 0);
		return 0;
	}
	if (!strcmp(name, "sysctl")) {
		for (int i = 1; i < argc; i++)
			do_sysctl(argv[i]);
		return 0;
	}
	if (!strcmp(name, "ifconfig"))
		return do_ifconfig(argc, argv);
	if (!strcmp(name, "udp"))
		return do_udp(argc, argv);
	if (!strcmp(name, "cat")) {
		char some[8192];
		ssize_t got;
		for (int i = 1; i < argc; i++) {
			int fd = open(argv[i], O_RDONLY);
			if (fd < 0)
				err(1, "%s", argv[i]);
			while ((got = read(fd, some, sizeof(some))) > 0)
				write(1, some, got);
			close(fd);
		}
		return 0;
	}
	/* as USER COMMAND...: with the rights of that user's number. */
	if (!strcmp(name, "as") && argc > 2) {
		if (setgid(atoi(argv[1])) != 0 || setuid(atoi(argv[1])) != 0)
			err(1, "setuid");
		execvp(argv[2], argv + 2);
		err(127, "%s", argv[2]);
	}
	errx(2, "unknown name %s", name);
}
