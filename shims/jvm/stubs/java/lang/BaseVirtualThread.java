package java.lang;

abstract class BaseVirtualThread extends Thread {}
